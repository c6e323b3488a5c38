package examine

import (
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// checkCluster looks at the cluster as this node sees it.
func (s Server) checkCluster(r *report, v *view) {
	if v.clustErr != nil {
		r.unseen(ClusterState, v.clustErr, "+cluster|info")
		return
	}
	state, assigned := v.cluster["cluster_state"], v.cluster["cluster_slots_assigned"]
	failing, silent := v.cluster["cluster_slots_fail"], v.cluster["cluster_slots_pfail"]
	detail := fmt.Sprintf("the cluster is %s, %s of %d slots have a node; nodes of %s slots fail, of %s are silent",
		state, assigned, layout.Slots, failing, silent)
	const remedy = "start the nodes that are missing, or have replicas take over; redis-cli --cluster check says which"
	switch {
	case state != "ok", assigned != fmt.Sprint(layout.Slots), failing != "0":
		r.add(lock.SeverityError, ClusterState, detail+": names in the others cannot be locked", remedy)
	case silent != "0":
		r.add(lock.SeverityWarning, ClusterState, detail, remedy)
	default:
		r.ok(ClusterState, "%s", detail)
	}
}
