package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// durable are the arguments of a master that has every write on its disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Two of five masters are killed and nobody notices. With three gone, who asks is told so, and who holds is told until
// when.
func TestMastersAreKilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	masters := redistest.StartMasters(t, 5, durable...)
	d := startLockd(t, redistest.Addrs(masters), soonOver)
	told := make(statuses, 1000)
	c := d.Dial(t, told.option())
	var held []*client.Lock
	for i := range 20 {
		held = append(held, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	for _, m := range masters[:2] {
		m.Kill()
	}
	killed := time.Now()
	for _, l := range held { // was renewed afterwards
		for l.Err() == nil && l.Deadline().Before(killed.Add(shortly)) {
			mustUnlock(t, mustLock(t, c, "meanwhile"))
		}
	}
	for range len(told) {
		if st := <-told; st.State == client.AtRisk {
			t.Errorf("with three of five masters: told %v", st)
		}
	}
	for _, l := range held {
		if l.Err() != nil {
			t.Errorf("with three of five masters %s is lost: %v", l.Name(), l.Err())
		}
	}

	masters[2].Kill()
	told.await(t, client.AtRisk)
	_, err := c.TryLock(t.Context(), "in vain")
	if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("got %v, want that there is no majority", err)
	}
	for _, l := range held {
		harness.Soon(t, "the loss is told", l.Lost())
	}

	for _, m := range masters[:3] {
		m.Restart()
	}
	awaitGrant(t, c, "job 0")
}
