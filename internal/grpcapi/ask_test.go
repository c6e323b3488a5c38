package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func look(id uint64, name string) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Look{Look: &lockdv1.Look{Name: name}}}
}

func release(id uint64, h *lockdv1.Hold, keep uint32) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
		Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence(), Keep: keep,
	}}}
}

// call sends a request and returns its answer.
func (c *stream) call(m *lockdv1.SessionRequest) *lockdv1.SessionResponse {
	c.t.Helper()
	c.send(m)
	got := c.recv()
	if got.GetRequestId() != m.GetRequestId() {
		c.t.Fatalf("got %v, want the answer to %d", got, m.GetRequestId())
	}
	return got
}

func TestALookOnTheStreamIsThatOfTheService(t *testing.T) {
	inBubble(t, func(s *server) {
		c, other := s.open(&lockdv1.Open{}), s.open(&lockdv1.Open{ClientName: "holder"})
		fence := other.take(1, "door").GetHolds()[0].GetFence()
		got := c.call(look(1, "door")).GetLooked().GetLock()
		if !got.GetHeld() || got.GetFence() != fence || got.GetClient() != "holder" || got.GetHolders() != 1 {
			t.Errorf("got %v", got)
		}
		if want := s.get("door"); got.String() != want.String() {
			t.Errorf("got %v, the service tells %v", got, want)
		}
		if f := c.call(look(2, "\n")).GetResult().GetFailure(); f.GetReason() != "INVALID_NAME" {
			t.Errorf("got %v", f)
		}
	})
}

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
		limit := func(id uint64, n uint32) *lockdv1.SessionResponse {
			return c.call(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_SetLimit{
				SetLimit: &lockdv1.SetLimit{Name: "pool", Limit: n},
			}})
		}
		if got := limit(1, 4); got.GetLimitSet() == nil || got.GetLimitSet().GetPrevious() != 0 {
			t.Errorf("got %v", got)
		}
		if got := limit(2, 5); got.GetLimitSet().GetPrevious() != 4 {
			t.Errorf("got %v", got)
		}
		if st := c.call(look(3, "pool")).GetLooked().GetLock(); st.GetLimit() != 5 || st.GetHeld() ||
			st.GetKind() != semaphore {
			t.Errorf("got %v", st)
		}
		if f := limit(4, 0).GetResult().GetFailure(); f.GetReason() != "INVALID_PERMITS" {
			t.Errorf("got %v", f)
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
		_, err = locks.SetLimit(s.t.Context(), &lockdv1.SetLimitRequest{Name: "pool"})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("got %v", err)
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
