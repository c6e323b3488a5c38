package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func TestTheHoldsOfASessionInPages(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		c.ask(1, &lockdv1.Acquire{Name: "c", Kind: semaphore, Permits: 2, Limit: 3})
		c.ask(2, &lockdv1.Acquire{Name: "a", Lease: seconds(60)})
		c.ask(3, &lockdv1.Acquire{Name: "b", Kind: read})
		var all []*lockdv1.HeldLock
		token := ""
		for id := uint64(10); ; id++ {
			list := c.call(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_ListHolds{
				ListHolds: &lockdv1.ListHolds{PageSize: 2, PageToken: token},
			}}).GetHoldList()
			all = append(all, list.GetLocks()...)
			if token = list.GetNextPageToken(); token == "" {
				break
			}
		}
		if len(all) != 3 || all[0].GetHold().GetName() != "a" || all[0].GetAuto() || all[1].GetHold().GetKind() != read ||
			!all[1].GetAuto() || all[2].GetPermits() != 2 || all[2].GetHoldCount() != 1 {
			t.Fatalf("got %v", all)
		}
		if left := all[0].GetValidity().GetRemaining().AsDuration(); left < 50*time.Second || left > time.Minute {
			t.Errorf("a is valid for %v, want about a minute", left)
		}
	})
}

func TestALimitAndPermitsOnTheStream(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		if got := c.call(limitOf(1, "pool", 4)); got.GetLimitSet() == nil || got.GetLimitSet().GetPrevious() != 0 {
			t.Errorf("got %v", got)
		}
		if got := c.call(limitOf(2, "pool", 5)); got.GetLimitSet().GetPrevious() != 4 {
			t.Errorf("got %v", got)
		}
		if st := c.call(look(3, "pool")).GetLooked().GetLock(); st.GetLimit() != 5 || st.GetHeld() ||
			st.GetKind() != semaphore {
			t.Errorf("got %v", st)
		}
		h := c.ask(5, &lockdv1.Acquire{Name: "pool", Kind: semaphore, Permits: 4}).GetGranted().GetHolds()[0]
		if got := c.call(release(6, h, 1)).GetReleased(); got.GetRemaining() != 1 {
			t.Errorf("got %v, want one left", got)
		}
		if st := s.get("pool"); st.GetHolders() != 1 {
			t.Errorf("got %v, want one permit out", st)
		}
		if got := c.call(release(7, h, 0)); got.GetReleased() == nil || got.GetReleased().GetRemaining() != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestALimitAndPermitsByUnaryCalls(t *testing.T) {
	inBubble(t, func(s *server) {
		locks := lockdv1.NewLockServiceClient(s.conn)
		set, err := locks.SetLimit(s.t.Context(), &lockdv1.SetLimitRequest{Name: "pool", Limit: 4})
		if err != nil || set.GetPrevious() != 0 {
			t.Fatal(set, err)
		}
		a, err := locks.Acquire(s.t.Context(),
			&lockdv1.AcquireRequest{Name: "pool", Kind: semaphore, Permits: 3, Lease: seconds(60)})
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []uint32{2, 2, 0} {
			r, err := locks.Release(s.t.Context(), &lockdv1.ReleaseRequest{
				Name: "pool", Kind: semaphore, LeaseId: a.GetGranted().GetLeaseId(), Keep: keep,
			})
			if err != nil || r.GetRemaining() != keep {
				t.Errorf("got %v and %v, want %d left", r, err, keep)
			}
		}
	})
}

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
