package broker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
)

// silent is a store that takes a second to say that it does not know what became of anything.
type silent struct {
	lock.Store
	under, most atomic.Int32
}

func (s *silent) StartAcquire(_ lock.Claim, done func(lock.Grant, error)) {
	go func() {
		time.Sleep(time.Second)
		done(lock.Grant{}, lock.ErrOutcomeUnknown)
	}()
}

func (s *silent) Acquire(context.Context, lock.Claim) (lock.Grant, error) {
	time.Sleep(time.Second)
	return lock.Grant{}, lock.ErrOutcomeUnknown
}

func (s *silent) StartRelease(_ lock.Return, done func(lock.Returned, error)) {
	s.most.Store(max(s.most.Load(), s.under.Add(1)))
	go func() {
		time.Sleep(time.Second)
		s.under.Add(-1)
		done(lock.Returned{}, lock.ErrOutcomeUnknown)
	}()
}

// TestWhatIsUndoneKeepsNobodyFromTheStore has the outcomes of many requests be unknown at once: a few of them are
// undone at a time.
func TestWhatIsUndoneKeepsNobodyFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.AnswerTime = 10 * time.Second // longer than the store takes: else 1,000 timers are due when set (see after)
		store := &silent{Store: memstore.New()}
		w := startOn(t, cfg, store)
		c := w.alive()
		for i := range 1000 {
			c.acquire(request.Acquire{Name: fmt.Sprint("name", i), Wait: new(time.Duration)})
		}
		time.Sleep(time.Minute)
		if n := store.most.Load(); n == 0 || n > 64 {
			t.Errorf("%d releases were at the store at once, want some and at most 64", n)
		}
	})
}
