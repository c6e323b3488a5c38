package watching_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// shown is a store that shows what a test says, and tells when that changes.
type shown struct {
	sight  lock.Sight
	notify func(lock.Notice)
}

func (s *shown) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	s.notify = notify
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (s *shown) See(context.Context, string) (lock.Sight, error) { return s.sight, nil }

func (s *shown) show(f lock.Fence, hs ...lock.SeenHold) {
	s.sight = lock.Sight{Fence: f, Holds: hs, Tracked: true}
	s.notify(lock.Notice{What: lock.NoticeChanged})
	synctest.Wait()
	time.Sleep(time.Second)
}

type heard []string

func (*heard) Watching(uint64) {}
func (h *heard) Unlocked(_ string, c lock.EndCause, f lock.Fence) {
	*h = append(*h, fmt.Sprint(c, " ", f))
}

// What is unsure of a hold that was seen is neither its end nor another fence.
func TestAHoldThatMayLastKeepsItsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &shown{}, &heard{}
		hub := watching.New(s)
		defer hub.Close()
		hub.Watch("n", h, 1)
		synctest.Wait()
		hold := lock.SeenHold{ID: "lock o", Fence: 7, TTL: 2 * time.Second}
		s.show(7, hold)
		hold.Unsure, hold.Fence = true, 9
		for range 5 {
			s.show(7, hold)
		}
		if len(*h) > 0 {
			t.Errorf("got %q while it may last", *h)
		}
		s.show(7) // before its time, and nobody says why
		synctest.Wait()
		if want := fmt.Sprint(lock.EndUnknown, " ", 7); len(*h) != 1 || (*h)[0] != want {
			t.Errorf("got %q, want %q", *h, want)
		}
	})
}
