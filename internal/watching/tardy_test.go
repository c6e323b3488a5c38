package watching_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// redissons is a store in which a program holds a name whose messages say only that something was released.
type redissons struct {
	mu     sync.Mutex // guards all
	holds  []lock.SeenHold
	notify func(lock.Notice)
}

func (s *redissons) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = notify
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (s *redissons) See(context.Context, string) (lock.Sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lock.Sight{Tracked: true, Holds: s.holds}, nil
}

// change has another program take the name, or give it back.
func (s *redissons) change(holds ...lock.SeenHold) {
	s.mu.Lock()
	s.holds = holds
	notify := s.notify
	s.mu.Unlock()
	notify(lock.Notice{What: lock.NoticeChanged})
}

func (s *redissons) message() {
	s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased})
}

// The message of a release may come before it is seen or long after. Either way it is one end, and the next hold has
// its own.
func TestReleasesOfOtherProgramsAreToldOnceHoweverLateTheirMessagesAre(t *testing.T) {
	for _, ms := range []int{0, 10, 29, 31, 100, 900} {
		late := time.Duration(ms) * time.Millisecond
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &redissons{}
				hub := watching.New(store)
				defer hub.Close()
				w := &watcher{}
				hub.Watch("n", w, 1)
				synctest.Wait()
				const ends = 20
				for i := range ends {
					store.change(lock.SeenHold{ID: "exclusive theirs", TTL: time.Minute, Foreign: true})
					time.Sleep(50 * time.Millisecond)
					time.AfterFunc(late, store.message)
					store.change()
					time.Sleep(50 * time.Millisecond)
					if i%5 == 4 {
						time.Sleep(2 * time.Second)
					}
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.all {
					if e.cause != lock.EndReleased {
						t.Errorf("heard %+v", e)
					}
				}
				if len(w.all) != ends {
					t.Errorf("heard of %d ends of %d", len(w.all), ends)
				}
			})
		})
	}
}

// Messages may be lost. Then the next release has its own message, and is told at once, also if nobody saw the hold.
func TestAMessageThatNeverCameIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &redissons{}
		hub := watching.New(store)
		defer hub.Close()
		w := &watcher{}
		hub.Watch("n", w, 1)
		synctest.Wait()
		store.change(lock.SeenHold{ID: "exclusive theirs", TTL: time.Minute, Foreign: true})
		time.Sleep(time.Second)
		store.change()
		time.Sleep(1100 * time.Millisecond)
		store.message()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.all) != 2 {
			t.Errorf("heard %+v, want two releases", w.all)
		}
	})
}
