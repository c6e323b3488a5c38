package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A lease that could not be renewed because no majority of several stores could be reached says so.
func TestWithoutAMajorityTheLossSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.take("job")
		w.store.setDown(lock.ErrNoQuorum)
		time.Sleep(time.Until(g.Validity.Until))
		events := c.events()
		if len(events) == 0 {
			t.Fatal("nothing was told")
		}
		if l, ok := events[len(events)-1].(session.Lost); !ok || l.Reason != lock.LostQuorum {
			t.Errorf("got %#v, want Lost because there is no majority", events)
		}
	})
}
