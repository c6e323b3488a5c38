package inspect

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// slowLooks is a Store whose looks take a second. The fence of a state says when its look began.
type slowLooks struct {
	Store
	calls, under, together atomic.Int64
	began                  time.Time
}

func (s *slowLooks) Look(ctx context.Context, name string) (lock.State, error) {
	s.calls.Add(1)
	if s.under.Add(1) > 1 {
		s.together.Add(1)
	}
	defer s.under.Add(-1)
	st := lock.State{Name: name, Fence: lock.Fence(time.Since(s.began))}
	select {
	case <-time.After(time.Second):
		return st, nil
	case <-ctx.Done():
		return lock.State{}, context.Cause(ctx)
	}
}

// Very many look at a name when it has changed. The store is asked a few times, and everybody sees it as it was after
// he asked, or later, also if some do not wait for their answers.
func TestThoseWhoLookAtOneNameShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, within = 5000, 10
		s := &slowLooks{began: time.Now()}
		d := &Inspector{Config: Config{Store: s}}
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				time.Sleep(rand.N(within * time.Second))
				asked := lock.Fence(time.Since(s.began))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				impatient := i%3 == 0
				if impatient {
					time.AfterFunc(rand.N(2*time.Second), cancel)
				}
				switch st, err := d.look(ctx, "n"); {
				case impatient && errors.Is(err, context.Canceled):
				case err != nil:
					t.Errorf("a look failed: %v", err)
				case st.Fence < asked:
					t.Errorf("who asked at %v was told of a look at %v", time.Duration(asked), time.Duration(st.Fence))
				case lock.Fence(time.Since(s.began))-asked > lock.Fence(30*time.Second):
					t.Errorf("a look took %v", time.Since(s.began)-time.Duration(asked))
				}
			})
		}
		wg.Wait()
		if calls, together := s.calls.Load(), s.together.Load(); calls > many/20 || together > 0 {
			t.Errorf("%d looks asked the store %d times, %d of them while it was being asked", many, calls, together)
		}
		if len(d.looks.of) > 0 {
			t.Errorf("%d looks are under way yet", len(d.looks.of))
		}
	})
}
