package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// refused starts a lockd that must end at once because it is configured wrong, and says why.
func refused(t *testing.T, env ...string) string {
	t.Helper()
	p := proctest.Start(t, lockdBin, append([]string{
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0",
	}, env...))
	if code := p.Code(); code != 78 {
		t.Errorf("got code %d, want that of a wrong configuration", code)
	}
	return p.Stderr.String()
}

// doctor waits until lockctl tells something of a replica and its store.
func doctor(t *testing.T, d *harness.Lockd, says string) {
	t.Helper()
	harness.Until(t, "doctor says "+says, func() bool {
		return strings.Contains(lockctl(d, "doctor", "--all").Stdout.String(), says)
	})
}

// The Redis that sentinels watch over is used by way of them, or by its address: not in both ways at the same time.
func TestReplicasThatKeepLocksInDifferentWaysDoNotServeTogether(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	d := harness.StartLockdOn(t, lockdBin, behind(k)...)
	harness.StartLockdOn(t, lockdBin, behind(k)...) // configured alike
	direct := []string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + k.Master().Addr}
	why := refused(t, direct...)
	for _, word := range []string{"store.kind sentinel", "store.kind standalone", "stop all of them"} {
		if !strings.Contains(why, word) {
			t.Errorf("got %s, want a word about %q", why, word)
		}
	}
	// With another prefix there are other locks.
	harness.StartLockdOn(t, lockdBin, append(direct, "LOCKD_REDIS_PREFIX=other:")...)

	// The replica that serves goes on when others differ, and tells.
	harness.Must(t, k.Master().Client().Set(t.Context(), "lockd:config:", "store.kind standalone", time.Hour).Err())
	harness.Until(t, "the difference is told", func() bool { return d.Metric("lockd_config_differs") == 1 })
	harness.Until(t, "it is logged", func() bool { return d.Logged("replicas keep locks in different ways") != nil })
	if line := d.Logged("replicas keep locks in different ways"); line["level"] != "error" {
		t.Errorf("got %v in the log", line)
	}
	harness.Until(t, "it is ready", func() bool { code, _ := d.Get("/readyz"); return code == http.StatusOK })
	doctor(t, d, "error    CONFIG_AGREES")
}

// Two majorities of different sets of masters need not meet.
func TestReplicasOverDifferentMastersDoNotServeTogether(t *testing.T) {
	t.Parallel()
	all := redistest.StartMasters(t, 4, "--appendonly", "yes")
	masters := redistest.Addrs(all)
	over := func(some ...int) string {
		var addrs []string
		for _, i := range some {
			addrs = append(addrs, masters[i])
		}
		return "LOCKD_REDLOCK_MEMBERS=" + strings.Join(addrs, ",")
	}
	const majority = "LOCKD_STORE_KIND=redlock"
	d := harness.StartLockdOn(t, lockdBin, majority, over(0, 1, 2))
	harness.StartLockdOn(t, lockdBin, majority, over(2, 0, 1), "LOCKD_REPLICA=b") // in another order
	for _, row := range []struct {
		env  []string
		says string
	}{
		{[]string{majority, over(1, 2, 3)}, "store.kind redlock, 2 of"},
		{[]string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + masters[1]}, "store.kind redlock, 2 of"},
		// One that has members vote again sooner would believe one that forgot what others hold there.
		{[]string{majority, over(0, 1, 2), "LOCKD_REDLOCK_QUARANTINE=20m"}, "redlock.quarantine 20m"},
	} {
		if why := refused(t, row.env...); !strings.Contains(why, row.says) {
			t.Errorf("%v: got %s, want a word about %q", row.env, why, row.says)
		}
	}
	doctor(t, d, "REACHABLE         "+masters[2])
	all[2].Kill()
	doctor(t, d, "2 of 3 members are there")
}
