package broker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
)

// TestWhatIsUndoneKeepsNobodyFromTheStore has the outcomes of many requests be unknown at once: a few of them are
// undone at a time.
func TestWhatIsUndoneKeepsNobodyFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.AnswerTime = 10 * time.Second // longer than the store takes: else 1,000 timers are due when set (see after)
		var under, most atomic.Int32
		store := &faults{Store: memstore.New()}
		store.onCall("", func(c call) error {
			if c.verb == "Release" {
				most.Store(max(most.Load(), under.Add(1)))
				defer under.Add(-1)
			}
			time.Sleep(time.Second)
			return errUnknown
		})
		w := startOn(t, cfg, store)
		c := w.alive()
		for i := range 1000 {
			c.acquire(request.Acquire{Name: fmt.Sprint("name", i), Wait: new(time.Duration)})
		}
		time.Sleep(time.Minute)
		if n := most.Load(); n == 0 || n > 64 {
			t.Errorf("%d releases were at the store at once, want some and at most 64", n)
		}
	})
}
