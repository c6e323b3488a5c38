package e2e

import (
	"fmt"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestAnUncontendedLockCostsOneScriptAndItsReleaseAnother(t *testing.T) {
	rs := redistest.Start(t)
	d := startLockd(t, rs.Addr)
	c := d.dial(t)
	mustUnlock(t, mustLock(t, c, "warm up")) // loads the scripts
	const n = 100
	calls := rs.ScriptCalls()
	var locks []*client.Lock
	for i := range n {
		locks = append(locks, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	if got := rs.ScriptCalls() - calls; got != n {
		t.Errorf("%d scripts for %d acquires", got, n)
	}
	calls = rs.ScriptCalls()
	for _, l := range locks {
		mustUnlock(t, l)
	}
	if got := rs.ScriptCalls() - calls; got != n {
		t.Errorf("%d scripts for %d releases", got, n)
	}
	if got := rs.Calls("subscribe"); got != 1 {
		t.Errorf("%d subscriptions, want only that of the control channel", got)
	}
}
