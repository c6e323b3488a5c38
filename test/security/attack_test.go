package security

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

// What a client may not look at shows nowhere: not where a page ends, not in what becomes of a hold that it never had,
// not in how a lease is missing.
func TestNothingOfAnothersNamesShows(t *testing.T) {
	w := newWorld(t)
	tokenFile := certstest.Write(t, w.file+".token", []byte(staticToken))
	ops := w.Dial(t, client.WithTLS(client.TLS{CACert: w.serverCA}), client.WithTokenFile(tokenFile))
	_, err := ops.Lock(t.Context(), "invoice:held")
	harness.Must(t, err)
	forced, err := ops.Lock(t.Context(), "invoice:forced")
	harness.Must(t, err)
	_, err = lockdv1.NewAdminServiceClient(w.conn(nil, bearer(staticToken))).ForceRelease(t.Context(),
		&lockdv1.ForceReleaseRequest{Name: "invoice:forced", Why: "a secret reason", By: "somebody"})
	harness.Must(t, err)
	harness.Soon(t, "it is lost", forced.Lost())

	all, err := lockdv1.NewInspectServiceClient(w.conn(nil, bearer(staticToken))).ListSessions(t.Context(),
		&lockdv1.ListSessionsRequest{})
	harness.Must(t, err)
	theirs := all.GetSessions()[0].GetSessionId()

	ci := w.conn(nil, bearer(w.issuer.token("first", w.issuer.claims(time.Hour))))
	inspect, locks := lockdv1.NewInspectServiceClient(ci), lockdv1.NewLockServiceClient(ci)
	ctx := t.Context()
	invented := func() *lockdv1.Opened {
		open := func(m *lockdv1.Open) *lockdv1.Opened {
			s, err := lockdv1.NewSessionServiceClient(ci).Session(ctx)
			harness.Must(t, err)
			harness.Must(t, s.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: m}}))
			r, err := s.Recv()
			harness.Must(t, err)
			return r.GetOpened()
		}
		features := []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}
		o := open(&lockdv1.Open{Features: features})
		hold := func(name string, fence uint64) *lockdv1.HeldLock {
			return &lockdv1.HeldLock{Auto: true, Hold: &lockdv1.Hold{Name: name, Fence: fence, AcquiredBy: 1}}
		}
		return open(&lockdv1.Open{Features: features, Resume: &lockdv1.Resume{
			SessionId: o.GetSessionId(), ResumeToken: o.GetResumeToken(), Epoch: 2, LastRequestId: 9,
			Holds: []*lockdv1.HeldLock{hold("invoice:forced", 1), hold("invoice:none", 1), hold("invoice:held", 1<<40)},
		}})
	}
	lost := invented().GetLost()
	for _, l := range lost {
		if l.GetReason() != lost[0].GetReason() || l.GetWhy()+l.GetBy() != "" {
			t.Errorf("of a hold that it never had it is told %v", l)
		}
	}
	answers := map[string]bool{}
	for _, name := range []string{"invoice:held", "invoice:none"} {
		for _, k := range []lockdv1.LockKind{1, 2, 3, 4, 5} {
			_, err := locks.Release(ctx, &lockdv1.ReleaseRequest{Name: name, Kind: k, LeaseId: strings.Repeat("x", 22)})
			answers[fmt.Sprint(reason(err))] = true
		}
	}
	if len(answers) != 1 {
		t.Errorf("a lease that it never had is missing in several ways: %v", answers)
	}
	for _, list := range []func() (fmt.Stringer, error){
		func() (fmt.Stringer, error) {
			return inspect.ListHolds(ctx, &lockdv1.ListHoldsRequest{PageSize: 1, MinAge: durationpb.New(1)})
		},
		func() (fmt.Stringer, error) {
			return inspect.ListHolds(ctx, &lockdv1.ListHoldsRequest{PageSize: 1, Prefix: "invoice:h", MinAge: durationpb.New(1)})
		},
		func() (fmt.Stringer, error) { return inspect.ListHolds(ctx, &lockdv1.ListHoldsRequest{PageSize: 1}) },
		func() (fmt.Stringer, error) {
			return inspect.ListSessions(ctx, &lockdv1.ListSessionsRequest{PageSize: 1})
		},
		func() (fmt.Stringer, error) { return locks.List(ctx, &lockdv1.ListRequest{PageSize: 1}) },
	} {
		r, err := list()
		harness.Must(t, err)
		if text := r.String(); strings.Contains(text, "invoice") || strings.Count(text, "identity:") > 1 ||
			strings.Contains(text, theirs) {
			t.Errorf("it is shown %s", text)
		}
	}
}
