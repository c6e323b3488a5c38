package alerts

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// TestNothingFiresWithoutAFault has clients work for -healthy with two replicas on one Redis, two on a majority, and
// one with a certificate. Some hold many locks all the time.
func TestNothingFiresWithoutAFault(t *testing.T) {
	needPrometheus(t)
	p := startPrometheus(t)
	rs, members := redistest.Start(t), redistest.StartMasters(t, 3)
	s := &scene{prometheus: p, t: t}
	t.Cleanup(func() { s.stoodStill() })
	s.export(rs)
	one := []*harness.Lockd{s.serve(on(rs.Addr)...), s.serve(on(rs.Addr)...)}
	many := []*harness.Lockd{s.serve(over(members)...), s.serve(over(members)...)}
	cert, key := certstest.NewAuthority(t, "authority").Issue(t, 60*24*time.Hour, "127.0.0.1").Files(t)
	s.serve("LOCKD_STORE_KIND=memory", "LOCKD_LISTEN_TLS_CERT_FILE="+cert, "LOCKD_LISTEN_TLS_KEY_FILE="+key)
	begun := time.Now()
	for _, d := range append(one, many...) {
		c := dial(t, d, client.WithSessionTTL(ttl))
		for i := range 50 {
			take(t, c, fmt.Sprint("of ", d.Ops, " ", i))
		}
	}
	t.Run("load", func(t *testing.T) {
		t.Run("one", func(t *testing.T) { t.Parallel(); work(t, *healthy, everyKind, one...) })
		t.Run("many", func(t *testing.T) { t.Parallel(); work(t, *healthy, fewKinds, many...) })
	})
	still := s.stoodStill()
	for _, a := range p.history(t, "ALERTS") {
		if a.Metric["alertname"] == absentAlert && a.until().Before(begun) {
			t.Log("there was no replica at first, and it was told")
			continue
		}
		if a.Metric["alertname"] == late && a.after(still) {
			t.Logf("replicas stood still, and it was told: %v", a.Metric)
			continue
		}
		if a.Metric["alertstate"] == "firing" {
			t.Errorf("fired: %v", a.Metric)
		} else {
			t.Logf("for a moment only: %v", a.Metric)
		}
	}
	for _, d := range one {
		if d.Metric(`lockd_acquire_total{kind="exclusive",result="granted"}`) == 0 ||
			len(p.history(t, "lockd_build_info")) != 5 {
			t.Error("there was no load, or nobody looked")
		}
	}
}

// absentAlert is the alert that is about no replica: it has no instance, and needs a Prometheus of its own.
const absentAlert = "LockdAbsent"

// TestNoReplicaAtAllIsTold stops the only replica.
func TestNoReplicaAtAllIsTold(t *testing.T) {
	needPrometheus(t)
	t.Parallel()
	s := &scene{prometheus: startPrometheus(t), t: t}
	t.Cleanup(func() { s.stoodStill() })
	fires := func() bool {
		return len(s.query(t, fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q}`, absentAlert))) == 1
	}
	harness.Until(t, "it fires without a replica", fires)
	d := s.serve("LOCKD_STORE_KIND=memory")
	harness.Until(t, "it ends with a replica", func() bool { return !fires() })
	d.Kill()
	harness.Until(t, "it fires again", fires)
}
