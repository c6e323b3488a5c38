package alerts

import (
	"fmt"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// absentAlert is the alert that is about no replica: it has no instance, and needs a Prometheus of its own.
const absentAlert = "LockdAbsent"

// TestNoReplicaAtAllIsTold stops the only replica.
func TestNoReplicaAtAllIsTold(t *testing.T) {
	needPrometheus(t)
	t.Parallel()
	s := &scene{prometheus: startPrometheus(t), t: t}
	fires := func() bool {
		return len(s.query(t, fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q}`, absentAlert))) == 1
	}
	harness.Until(t, "it fires without a replica", fires)
	d := s.serve("LOCKD_STORE_KIND=memory")
	harness.Until(t, "it ends with a replica", func() bool { return !fires() })
	d.Kill()
	harness.Until(t, "it fires again", fires)
}
