package examine

import (
	"fmt"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// checkCluster looks at the cluster as this node sees it.
func (s Server) checkCluster(r *report, v *view) {
	if v.clustErr != nil {
		for _, check := range []string{ClusterState, ClusterSlots, SlotMigration} {
			r.unseen(check, v.clustErr, "+cluster|info +cluster|nodes")
		}
		return
	}
	if state := v.cluster["cluster_state"]; state != "ok" {
		r.add(lock.SeverityError, ClusterState, "the node says that the cluster is down (cluster_state:"+state+")",
			"start the masters that are missing, or have replicas take their place: CLUSTER NODES says who fails")
	} else {
		r.ok(ClusterState, "ok, %s nodes, %s masters with slots", v.cluster["cluster_known_nodes"], v.cluster["cluster_size"])
	}
	assigned, failing := v.cluster["cluster_slots_assigned"], v.cluster["cluster_slots_fail"]
	doubtful := v.cluster["cluster_slots_pfail"]
	detail := fmt.Sprintf("%s of %d slots have a node", assigned, layout.Slots)
	switch {
	case assigned != fmt.Sprint(layout.Slots):
		r.add(lock.SeverityError, ClusterSlots, detail+": names in the others cannot be locked", "redis-cli --cluster fix")
	case failing != "0":
		r.add(lock.SeverityError, ClusterSlots, detail+", but the nodes of "+failing+" fail",
			"start these nodes, or have replicas take their place")
	case doubtful != "0":
		r.add(lock.SeverityWarning, ClusterSlots, detail+", but the nodes of "+doubtful+" are silent",
			"see these nodes and their network")
	default:
		r.ok(ClusterSlots, "%s", detail)
	}
	if open := migrating(v.nodes); len(open) > 0 {
		r.add(lock.SeverityWarning, SlotMigration, "slots are being moved: "+strings.Join(open, " "),
			"wait until it is done; if nobody moves slots, redis-cli --cluster fix")
	} else {
		r.ok(SlotMigration, "no slot is being moved")
	}
}

// migrating are the slots that this node gives away or gets: the words in brackets in its own line of CLUSTER NODES.
func migrating(nodes string) (open []string) {
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) < 8 || !strings.Contains(words[2], "myself") {
			continue
		}
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				open = append(open, word)
			}
		}
	}
	return open
}
