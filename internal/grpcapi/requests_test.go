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

func TestALeaseIsChangedOnTheStream(t *testing.T) {
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
	})
}
