package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// condition is that of an alert of deploy/prometheus, as far as the numbers of this replica tell.
type condition struct {
	alert, says string
	metric      string
	labels      string // name=value of one label, or several values; empty: all
	counts      bool   // it is a counter: what matters is by how much it grew
	holds       func(v float64) bool
}

func isZero(v float64) bool { return v == 0 }

func isSome(v float64) bool { return v > 0 }

func isAbove(bound float64) func(float64) bool { return func(v float64) bool { return v > bound } }

// lostReasons are those for which a lock should not be lost.
const lostReasons = "reason=expired,forced,data_loss,no_quorum,forbidden"

// conditions are those of all alerts, but for the alerts about Redis and Prometheus, of which this replica has no
// numbers.
var conditions = []condition{
	{"LockdStoreDown", "The store answers", "lockd_store_up", "", false, isZero},
	{"LockdLocksLost", "Locks lost", "lockd_lost_total", lostReasons, true, isSome},
	{"LockdRenewalsFail", "Renewals that failed", "lockd_renew_total", "result=failed", true, isSome},
	{"LockdRenewalsLate", "Renewals a second late or more", "lockd_renew_lateness_seconds", "", true, isSome},
	{"LockdOutcomesUnknown", "Outcomes unknown", "lockd_redis_errors_total", "kind=outcome_unknown", true, isSome},
	{"LockdOutcomesUnknown", "Releases that the store has not acknowledged", "lockd_settle_pending", "", false, isSome},
	{"LockdQuotaDenied", "Requests over a limit", "lockd_quota_denied_total", "", true, isSome},
	{"LockdWaiterStuck", "Longest wait in seconds", "lockd_oldest_waiter_seconds", "", false, isAbove(600)},
	{"LockdDeadlock", "Deadlocks", "lockd_deadlocks", "", false, isSome},
	{"LockdConfigDiffers", "Replicas that differ", "lockd_config_differs", "", false, isSome},
	{"LockdMemberDown", "All members answer", "lockd_redlock_member_up", "", false, isZero},
	{"LockdNoMajorityVotes", "Members in quarantine", "lockd_redlock_member_quarantined", "", false, isSome},
	{"LockdClientsFileInvalid", "The clients file is good", "lockd_clients_file_valid", "", false, isZero},
	{"LockdAuditLinesDropped", "Lines of the audit dropped", "lockd_audit_dropped_total", "", true, isSome},
	{"LockdUnauthenticated", "Calls of nobody known", "lockd_unauthenticated_total", "", true, isAbove(300)},
	{"LockdSigningKeysOld", "Age of signing keys in seconds", "lockd_jwks_age_seconds", "", false, isAbove(3600)},
}

// conditionNow is a condition and its value now.
type conditionNow struct {
	Alert, Says, Now string
	Holds            bool
}

// recent is how far back counters are compared, and apart is the least time between two samples of them.
const (
	recent = 5 * time.Minute
	apart  = 10 * time.Second
)

// numbers are what counters were when somebody looked.
type numbers struct {
	mu   sync.Mutex // guards the field below
	seen []sample
}

type sample struct {
	at     time.Time
	values []float64 // of conditions
}

// before keeps the sample now, and returns the oldest one that is recent.
func (n *numbers) before(now sample) sample {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = slices.DeleteFunc(n.seen, func(s sample) bool { return now.at.Sub(s.at) > recent })
	if len(n.seen) == 0 || now.at.Sub(n.seen[len(n.seen)-1].at) > apart {
		n.seen = append(n.seen, now)
	}
	return n.seen[0]
}

// conditionsNow are the conditions that this replica knows; those that hold come first.
func (c *Console) conditionsNow(now time.Time) []conditionNow {
	families, _ := c.cfg.Numbers.Gather() // of what failed there is none
	found := map[string]*dto.MetricFamily{}
	for _, f := range families {
		found[f.GetName()] = f
	}
	in := sample{now, make([]float64, len(conditions))}
	for i, of := range conditions {
		in.values[i] = of.value(found[of.metric])
	}
	before := c.numbers.before(in)
	var hold, rest []conditionNow
	for i, of := range conditions {
		if found[of.metric] == nil {
			continue
		}
		v := in.values[i]
		row := conditionNow{Alert: of.alert, Says: of.says, Now: strconv.FormatFloat(v, 'f', 0, 64), Holds: of.holds(v)}
		switch {
		case of.holds(0): // it should be 1
			row.Now = map[bool]string{true: "no", false: "yes"}[row.Holds]
		case of.counts:
			grew := v - before.values[i]
			row.Holds = of.holds(grew)
			row.Now += " since the start"
			if past := now.Sub(before.at); past >= time.Second && grew > 0 {
				row.Now += fmt.Sprintf(", %v of them in %s", grew, inWords(past))
			}
		}
		if row.Holds {
			hold = append(hold, row)
		} else {
			rest = append(rest, row)
		}
	}
	return append(hold, rest...)
}

// value is what a condition looks at: a sum, or the least of what should be 1.
func (of *condition) value(f *dto.MetricFamily) (v float64) {
	name, values, _ := strings.Cut(of.labels, "=")
	for i, m := range f.GetMetric() {
		isMeant := func(l *dto.LabelPair) bool {
			return l.GetName() == name && slices.Contains(strings.Split(values, ","), l.GetValue())
		}
		if name != "" && !slices.ContainsFunc(m.GetLabel(), isMeant) {
			continue
		}
		one := m.GetGauge().GetValue() + m.GetCounter().GetValue()
		if h := m.GetHistogram(); h != nil { // how many were above 1
			one = float64(h.GetSampleCount())
			for _, b := range h.GetBucket() {
				if b.GetUpperBound() <= 1 {
					one = float64(h.GetSampleCount() - b.GetCumulativeCount())
				}
			}
		}
		if of.holds(0) && i > 0 {
			v = min(v, one)
		} else {
			v += one
		}
	}
	return v
}
