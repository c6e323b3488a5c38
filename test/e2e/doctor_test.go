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

func TestDoctorTellsTheWorstByItsExitCode(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t, "--appendonly", "yes", "--maxmemory", "100mb")
	d := startLockd(t, rs.Addr, "LOCKD_REDIS_OP_TIMEOUT=500ms")
	p := lockctl(d, "doctor")
	p.Want(0, p.Stdout.String())

	rc := rs.Client()
	set := func(name, value string) {
		t.Helper()
		if err := rc.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("appendonly", "no")
	p = lockctl(d, "doctor")
	p.Want(2, p.Stdout.String())
	set("maxmemory-policy", "allkeys-lru")
	v := lockctl(d, "doctor", "-o", "json")
	v.Want(3, v.Stdout.String())
	if text := v.Stdout.String(); !strings.Contains(text, `"worst":"error"`) ||
		!strings.Contains(text, `{"severity":"error","check":"MAXMEMORY_POLICY","node":"`+rs.Addr) {
		t.Errorf("got %s", text)
	}

	rs.Pause()
	defer rs.Resume()
	begun := time.Now()
	p = lockctl(d, "doctor")
	p.Want(3, p.Stdout.String())
	if took := time.Since(begun); took > 8*time.Second || !strings.Contains(p.Stdout.String(), "REACHABLE") {
		t.Errorf("got %s after %v", p.Stdout.String(), took)
	}
}

// The Redis that sentinels watch over is used by way of them, or by its address: not in both ways at the same time.
func TestReplicasThatKeepLocksInDifferentWaysDoNotServeTogether(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	viaSentinels := []string{
		"LOCKD_STORE_KIND=sentinel", "LOCKD_REDIS_SENTINEL_MASTER=" + redistest.MasterName,
		"LOCKD_REDIS_SENTINEL_ADDRS=" + strings.Join(k.Addrs, ","),
	}
	d := harness.StartLockdOn(t, lockdBin, viaSentinels...)
	harness.StartLockdOn(t, lockdBin, viaSentinels...) // configured alike
	direct := []string{
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0",
		"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + k.Master().Addr,
	}
	p := proctest.Start(t, lockdBin, direct)
	if code := p.Code(); code != 78 {
		t.Errorf("got code %d, want that of a wrong configuration", code)
	}
	for _, word := range []string{"store.kind sentinel", "store.kind standalone", "stop all of them"} {
		if !strings.Contains(p.Stderr.String(), word) {
			t.Errorf("got %s, want a word about %q", p.Stderr.String(), word)
		}
	}
	// With another prefix there are other locks.
	other := startLockd(t, k.Master().Addr, "LOCKD_REDIS_PREFIX=other:")
	if code, _ := other.Get("/readyz"); code != http.StatusOK {
		t.Errorf("with another prefix: /readyz answers %d", code)
	}

	// The replica that serves goes on when others differ, and tells.
	if err := k.Master().Client().Set(t.Context(), "lockd:config:", "store.kind standalone", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the difference is told", func() bool { return d.Metric("lockd_config_differs") == 1 })
	if line := d.Logged("replicas keep locks in different ways"); line == nil || line["level"] != "error" {
		t.Errorf("got %v in the log", line)
	}
	if code, _ := d.Get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d", code)
	}
	doctor := lockctl(d, "doctor")
	doctor.Want(3, doctor.Stdout.String())
	if !strings.Contains(doctor.Stdout.String(), "error    CONFIG_AGREES") {
		t.Errorf("got %s", doctor.Stdout.String())
	}
}

// A replica that began without Redis ends when it learns that others keep the locks in another way.
func TestAReplicaThatBeganWithoutRedisEndsWhenItDiffers(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	if err := rs.Client().Set(t.Context(), "lockd:config:", "store.kind sentinel", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	rs.Pause()
	p := proctest.Start(t, lockdBin, []string{
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0", "LOCKD_LOG_FORMAT=json",
		"LOCKD_REDIS_CONNECT_TIMEOUT=1s", "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + rs.Addr,
	})
	harness.Until(t, "lockd serves", func() bool { return strings.Contains(p.Stderr.String(), "lockd serves") })
	rs.Resume()
	if code := p.Code(); code != 78 {
		t.Logf("%s", p.Stderr.String())
		t.Errorf("got code %d, want that of a wrong configuration", code)
	}
}

// Two majorities of different sets of masters need not meet.
func TestReplicasOverDifferentMastersDoNotServeTogether(t *testing.T) {
	t.Parallel()
	masters := redistest.StartMasters(t, 4, "--appendonly", "yes")
	over := func(some ...int) []string {
		var addrs []string
		for _, i := range some {
			addrs = append(addrs, masters[i].Addr)
		}
		return []string{"LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS=" + strings.Join(addrs, ",")}
	}
	d := harness.StartLockdOn(t, lockdBin, over(0, 1, 2)...)
	harness.StartLockdOn(t, lockdBin, append(over(2, 0, 1), "LOCKD_REPLICA=b")...) // in another order
	p := proctest.Start(t, lockdBin,
		append(over(1, 2, 3), "LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0"))
	if code := p.Code(); code != 78 || !strings.Contains(p.Stderr.String(), "2 of "+masters[0].Addr) &&
		!strings.Contains(p.Stderr.String(), "store.kind redlock, 2 of") {
		t.Errorf("got code %d and %s, want that of a wrong configuration, and why", code, p.Stderr.String())
	}
	// One that has members vote again sooner would believe one that forgot what others hold there.
	hasty := proctest.Start(t, lockdBin, append(over(0, 1, 2), "LOCKD_REDLOCK_QUARANTINE=20m",
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0"))
	if code := hasty.Code(); code != 78 || !strings.Contains(hasty.Stderr.String(), "redlock.quarantine 20m") {
		t.Errorf("another quarantine: got code %d and %s", code, hasty.Stderr.String())
	}
	one := proctest.Start(t, lockdBin, []string{
		"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + masters[1].Addr, "LOCKD_LISTEN=127.0.0.1:0",
		"LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0",
	})
	if code := one.Code(); code != 78 {
		t.Errorf("one of the masters alone: got code %d and %s", code, one.Stderr.String())
	}

	doctor := lockctl(d, "doctor", "--all")
	doctor.Want(0, doctor.Stdout.String())
	for _, master := range masters[:3] {
		if !strings.Contains(doctor.Stdout.String(), "REACHABLE         "+master.Addr) {
			t.Errorf("got %s, want %s to be looked at", doctor.Stdout.String(), master.Addr)
		}
	}
	masters[2].Kill()
	harness.Until(t, "a member is missed", func() bool {
		p := lockctl(d, "doctor")
		return p.Code() == 2 && strings.Contains(p.Stdout.String(), "2 of 3 members are there")
	})
}
