package grpcapi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/gate"
)

var comesBack = []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}

// resume is how a client goes on with the session of a stream.
func (c *stream) resume(epoch, last uint64, holds ...*lockdv1.Hold) *lockdv1.Open {
	r := &lockdv1.Resume{
		SessionId: c.opened.GetSessionId(), ResumeToken: c.opened.GetResumeToken(), Epoch: epoch,
		LastRequestId: last,
	}
	for _, h := range holds {
		r.Holds = append(r.Holds, &lockdv1.HeldLock{Hold: h, HoldCount: 1, Auto: true})
	}
	return &lockdv1.Open{Resume: r, Features: comesBack}
}

// A client goes on with its session as the page of the protocol says, step by step.
func TestAClientGoesOnInAnotherStream(t *testing.T) {
	inBubble(t, func(s *server) {
		first := s.open(&lockdv1.Open{Features: comesBack})
		kept, forced := first.take(1, "kept").GetHolds()[0], first.take(2, "forced").GetHolds()[0]
		first.breaks()
		_, err := lockdv1.NewAdminServiceClient(s.admin).ForceRelease(s.t.Context(),
			&lockdv1.ForceReleaseRequest{Name: "forced", By: "alice", Why: "stuck"})
		must(t, err)

		second := s.open(first.resume(2, 2, kept, forced))
		o := second.opened
		if o.GetSessionId() != first.opened.GetSessionId() || o.GetResumeToken() != first.opened.GetResumeToken() {
			t.Errorf("it is another session: %v", o)
		}
		if len(o.GetResumed()) != 1 || o.GetResumed()[0].GetHold().GetFence() != kept.GetFence() {
			t.Errorf("resumed %v, want %v", o.GetResumed(), kept)
		}
		if v := o.GetResumed()[0].GetValidity(); v.GetRemaining().AsDuration() <= 0 || v.GetAnchor() != 0 {
			t.Errorf("its validity is %v", v)
		}
		if len(o.GetLost()) != 1 || o.GetLost()[0].GetReason() != lockdv1.Lost_REASON_FORCED ||
			o.GetLost()[0].GetBy() != "alice" || o.GetLost()[0].GetWhy() != "stuck" {
			t.Errorf("lost %v, want %v", o.GetLost(), forced)
		}

		_, err = s.refuses(first.resume(2, 2, kept)) // a copy of the client, with the epoch it knows
		wantReason(t, err, "SUPERSEDED")
		fourth := s.open(first.resume(3, 2, kept))
		wantReason(t, second.end(), "SUPERSEDED")
		if m := fourth.call(release(3, kept, 0)); m.GetReleased() == nil {
			t.Errorf("the release was answered %v", m)
		}
		fourth.send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}}})
		_ = fourth.end()
		fifth, err := s.refuses(first.resume(4, 3))
		wantReason(t, err, "SESSION_EXPIRED")
		if got := fifth.Trailer()["lockd-reason"]; !slices.Equal(got, []string{"SESSION_EXPIRED"}) {
			t.Errorf("the trailer tells %v", got)
		}
	})
}

// What a client tells of the past comes through, and what is no time is refused with the path to it.
func TestAClientTellsWhatIsOlderThanItsStream(t *testing.T) {
	inBubble(t, func(s *server) {
		first := s.open(&lockdv1.Open{Features: comesBack})
		kept := first.take(1, "kept").GetHolds()[0]
		first.breaks()
		open := first.resume(2, 1, kept)
		h := open.GetResume().GetHolds()[0]
		open.Resume.Age, h.Age, h.Annotation = durationpb.New(time.Hour), durationpb.New(time.Minute), "nightly"
		second := s.open(open)
		second.send(acquire(2, &lockdv1.Acquire{Name: "kept", Waited: durationpb.New(time.Second)}))
		second.recv()
		if age := s.b.Sessions("", 1)[0].Age; age != time.Hour {
			t.Errorf("the session is %v old", age)
		}
		if l := s.b.Leases("", "", 1)[0].Holder; l.Age != time.Minute || l.Annotation != "nightly" {
			t.Errorf("got %+v, want a lease a minute old with its annotation", l)
		}
		in, err := s.b.Inspect(s.t.Context(), "kept", 1, 1)
		if ws := in.Waiters; err != nil || len(ws) != 1 || ws[0].Age != time.Second {
			t.Errorf("got %+v, %v; want a waiter of a second", ws, err)
		}
		bad := first.resume(3, 2, kept)
		bad.GetResume().GetHolds()[0].Age = &durationpb.Duration{Nanos: -1}
		_, err = s.refuses(bad)
		if st := wantReason(t, err, "INVALID_DURATION"); !strings.Contains(st.Message(), "resume.holds[0].age") {
			t.Errorf("a time before its end: %v", st)
		}
	})
}

// A session goes on with as many locks as it may hold, which are more than a frame tells of.
func TestASessionGoesOnWithAllThatItMayHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, zap.NewNop(),
			func(c *broker.Config) { c.Limits.LocksPerSession = brokertest.Config().Limits.LocksPerSession }, nil)
		first := s.open(&lockdv1.Open{Features: comesBack})
		most := int(first.opened.GetLimits().GetLocksPerSession())
		long := strings.Repeat("n", 200)
		var holds []*lockdv1.Hold
		for i := range most {
			name := fmt.Sprint(long, i)
			if i < 10 {
				holds = append(holds, first.take(uint64(i)+1, name).GetHolds()[0])
				continue
			}
			holds = append(holds, &lockdv1.Hold{
				Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE,
				Holder: fmt.Sprint("#", i), Fence: 1, AcquiredBy: uint64(i),
			})
		}
		first.breaks()
		open := first.resume(2, uint64(most), holds...)
		if size := proto.Size(open); size < 2<<20 {
			t.Fatalf("only %d bytes", size)
		}
		o := s.open(open).opened
		if len(o.GetResumed()) != 10 || len(o.GetLost()) != most-10 {
			t.Errorf("%d go on, %d are lost", len(o.GetResumed()), len(o.GetLost()))
		}
	})
}

// While renewals are late a session that comes waits, but not for so long that its locks are lost.
func TestASessionThatComesLetsRenewalsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late, busy atomic.Int64
		g := gate.New(busyStore{&busy}, func() time.Duration { return time.Duration(late.Load()) })
		s := startWith(t, zap.NewNop(), func(*broker.Config) {}, g)
		for i, c := range []struct{ ttl, ends, want time.Duration }{
			{30 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond},
			{30 * time.Second, time.Hour, time.Second},
			{3 * time.Second, time.Hour, 250 * time.Millisecond},
		} {
			first := s.open(&lockdv1.Open{Features: comesBack, SessionTtl: durationpb.New(c.ttl)})
			hold := first.take(1, fmt.Sprint("job ", i)).GetHolds()[0]
			first.breaks()
			late.Store(int64(time.Second))
			begun := time.Now()
			time.AfterFunc(c.ends, func() { late.Store(0) })
			open := first.resume(2, 1, hold)
			open.SessionTtl = durationpb.New(c.ttl)
			second := s.open(open)
			late.Store(0)
			if took := time.Since(begun); took < c.want || took > c.want*3/2 || len(second.opened.GetResumed()) != 1 {
				t.Errorf("TTL %v: it came after %v, want %v: %v", c.ttl, took, c.want, second.opened.GetResumed())
			}
		}
	})
}
