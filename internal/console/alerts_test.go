package console

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestConditionsHold(t *testing.T) {
	reg := prometheus.NewRegistry()
	up := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lockd_redlock_member_up", Help: "x"}, []string{"member"})
	lost := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockd_lost_total", Help: "x"}, []string{"reason"})
	late := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "lockd_renew_lateness_seconds", Help: "x", Buckets: []float64{0.1, 1, 10},
	})
	wait := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockd_oldest_waiter_seconds", Help: "x"})
	reg.MustRegister(up, lost, late, wait)
	up.WithLabelValues("a").Set(1)
	up.WithLabelValues("b").Set(1)
	lost.WithLabelValues("expired").Add(2)
	lost.WithLabelValues("session_ended").Add(7)
	late.Observe(0.5)
	wait.Set(600)
	c := &Console{cfg: Config{Numbers: reg}}
	now := time.Now()
	check := func(after time.Duration, want map[string]string) {
		t.Helper()
		all := c.conditionsNow(now.Add(after))
		if len(all) != 4 {
			t.Errorf("got %d conditions, want those that are known", len(all))
		}
		for _, got := range all {
			text := got.Now
			if got.Holds {
				text += ", holds"
			}
			if text != want[got.Alert] {
				t.Errorf("after %v, %s: got %q, want %q", after, got.Alert, text, want[got.Alert])
			}
		}
	}
	check(0, map[string]string{ // what was before somebody looked is nothing new
		"LockdMemberDown": "yes", "LockdLocksLost": "2 since the start", "LockdRenewalsLate": "0 since the start",
		"LockdWaiterStuck": "600",
	})
	up.WithLabelValues("b").Set(0)
	lost.WithLabelValues("no_quorum").Inc()
	late.Observe(1.5)
	wait.Set(601)
	grown := map[string]string{
		"LockdMemberDown": "no, holds", "LockdLocksLost": "3 since the start, 1 of them in 1 min 0 s, holds",
		"LockdRenewalsLate": "1 since the start, 1 of them in 1 min 0 s, holds", "LockdWaiterStuck": "601, holds",
	}
	check(time.Minute, grown)
	grown["LockdLocksLost"], grown["LockdRenewalsLate"] = "3 since the start", "1 since the start"
	check(7*time.Minute, grown)
}
