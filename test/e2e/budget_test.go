package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestAnUncontendedLockCostsOneScriptAndItsReleaseAnother(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	d := startLockd(t, rs.Addr)
	c := d.Dial(t)
	mustUnlock(t, mustLock(t, c, "warm up")) // loads the scripts
	const n = 100
	subscribed, calls := rs.Calls("subscribe"), rs.ScriptCalls()
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
	// A replica hears the control channel, the questions of others and the answers to its own, and nothing of these
	// locks.
	if got := rs.Calls("subscribe") - subscribed; got > 3 {
		t.Errorf("%d subscriptions, want one for each of a replica's own channels at most", got)
	}
	for _, channel := range rs.Client().PubSubChannels(t.Context(), "*").Val() {
		if !strings.HasPrefix(channel, "lockd:control") && !strings.HasPrefix(channel, "lockd:peers:") {
			t.Errorf("lockd hears %q", channel)
		}
	}
}
