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

// slowLooks is a Store whose looks take a second. A state has as its fence when its look began.
type slowLooks struct {
	Store
	calls, under atomic.Int64
	t            *testing.T
	began        time.Time
}

func (s *slowLooks) Look(ctx context.Context, name string) (lock.State, error) {
	s.calls.Add(1)
	if s.under.Add(1) > 1 {
		s.t.Error("two looks at one name are under way")
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
		s := &slowLooks{t: t, began: time.Now()}
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
		if calls := s.calls.Load(); calls > many/20 {
			t.Errorf("%d looks asked the store %d times", many, calls)
		}
		if len(d.looks.of) > 0 {
			t.Errorf("%d looks are under way yet", len(d.looks.of))
		}
	})
}
