package redistest

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/tier"
)

func TestSentinelsReplaceAMasterThatIsGone(t *testing.T) {
	tier.Long(t) // stores do the same in the first tier
	t.Parallel()
	begun := time.Now()
	k := StartSentinels(t)
	t.Logf("they agree after %v", time.Since(begun))
	first := k.Master()
	if first != k.Servers[0] {
		t.Errorf("the first master is %s, want %s", first.Addr, k.Servers[0].Addr)
	}
	if err := first.Client().Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := first.Client().Wait(t.Context(), 2, time.Second).Result(); err != nil || n != 2 {
		t.Fatalf("%d replicas acknowledge, %v, want two", n, err)
	}
	begun = time.Now()
	first.Kill()
	second := k.Settle(first.Addr)
	t.Logf("after SIGKILL there is another master after %v", time.Since(begun))
	if got, err := k.Master().Client().Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Errorf("the new master has %q, %v", got, err)
	}
	before := failOvers(t, k)
	first.Restart()
	last := k.Settle("")
	// On a busy machine the sentinels may miss the new master for a second, and fail over once more.
	if after := failOvers(t, k); last != second && after == before {
		t.Errorf("%s is the master without a fail-over, and was %s", last, second)
	}
}

func failOvers(t *testing.T, k *Sentinels) string {
	t.Helper()
	n, err := k.Watchers[0].failOvers()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSentinelsReplaceAMasterThatIsThere(t *testing.T) {
	tier.Long(t) // stores do the same in the first tier
	t.Parallel()
	k := StartSentinels(t)
	first := k.Master()
	begun := time.Now()
	if second := k.FailOver(); second == first.Addr {
		t.Errorf("%s is the master after a fail-over, and was it before", second)
	}
	t.Logf("a fail-over took %v", time.Since(begun))
}
