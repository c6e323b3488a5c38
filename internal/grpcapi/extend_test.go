package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func TestALeaseIsChangedOnTheStreamAndByAUnaryCall(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		h := c.take(1, "door").GetHolds()[0]
		id := uint64(1)
		extend := func(lease *durationpb.Duration, mayShorten bool, want time.Duration) {
			t.Helper()
			id++
			left := c.call(&lockdv1.SessionRequest{
				RequestId: id,
				Message: &lockdv1.SessionRequest_Extend{Extend: &lockdv1.Extend{
					Name: "door", Holder: h.GetHolder(), Fence: h.GetFence(), Lease: lease, MayShorten: mayShorten,
				}},
			}).GetExtended().GetValidity().GetRemaining().AsDuration()
			if left > want || left < want*9/10 {
				t.Errorf("valid for %v, want about %v", left, want)
			}
		}
		extend(seconds(600), false, 10*time.Minute)
		extend(seconds(60), false, 10*time.Minute)
		extend(seconds(60), true, time.Minute)
		extend(nil, true, 30*time.Second)
		locks := lockdv1.NewLockServiceClient(s.conn)
		a, err := locks.Acquire(s.t.Context(), &lockdv1.AcquireRequest{Name: "job", Lease: seconds(600)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := locks.Extend(s.t.Context(), &lockdv1.ExtendRequest{
			Name: "job", LeaseId: a.GetGranted().GetLeaseId(), Lease: seconds(5), MayShorten: true,
		})
		if err != nil || e.GetLease().GetValidFor().AsDuration() > 5*time.Second ||
			s.get("job").GetTtl().AsDuration() > 5*time.Second {
			t.Errorf("got %v and %v", e, err)
		}
	})
}
