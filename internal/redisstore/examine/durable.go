package examine

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// checkPersistence looks which locks a restart would leave.
func (s Server) checkPersistence(r *report, v *view) {
	if v.infoErr != nil {
		r.unseen(Persistence, v.infoErr, "+info")
		return
	}
	aof, fsync := v.info["aof_enabled"] == "1", v.settings["appendfsync"]
	save, saves := v.settings["save"], v.info["rdb_last_bgsave_status"]
	const appendOn = "CONFIG SET appendonly yes, and the same in its configuration"
	switch {
	case aof && v.info["aof_last_write_status"] == "err":
		r.add(lock.SeverityError, Persistence, "it cannot write its append-only file, and refuses locks",
			"make room on its disk; its log says more")
	case saves == "err" && v.settings["stop-writes-on-bgsave-error"].value == "yes" && save.value != "":
		r.add(lock.SeverityError, Persistence, "it cannot save, and refuses locks (stop-writes-on-bgsave-error)",
			"make room on its disk; its log says more")
	case aof && fsync.value == "no":
		r.add(lock.SeverityWarning, Persistence,
			"the append-only file is on the disk when the system likes (appendfsync no): a crash of the machine "+
				"forgets the locks of the last half minute", "CONFIG SET appendfsync everysec, or always")
	case aof && fsync.value == "always":
		r.ok(Persistence, "append-only file, appendfsync always")
	case aof:
		r.ok(Persistence, "append-only file, appendfsync %s: a crash of the machine forgets the locks of the last second "+
			"or two", cmp.Or(fsync.value, "not known"))
	case save.err != nil:
		r.add(lock.SeverityWarning, Persistence, "there is no append-only file: a restart forgets locks", appendOn)
	case save.value != "":
		r.add(lock.SeverityWarning, Persistence,
			fmt.Sprintf("snapshots only (save %s): a restart forgets all locks since the last one, and brings back those that "+
				"were free since", save.value), appendOn)
	default:
		r.add(lock.SeverityWarning, Persistence,
			"nothing is written to the disk: a restart forgets all its locks"+s.emptied(), appendOn)
	}
}

// emptied says what else a restart without data does.
func (s Server) emptied() string {
	if s.BehindSentinel || s.InCluster {
		return "; a master that restarts before it is replaced empties its replicas, too"
	}
	return ""
}

// maxLag is how many seconds a replica may be behind.
const maxLag = 10

// checkReplication looks whether a fail-over would leave the locks.
func (s Server) checkReplication(r *report, v *view) {
	if v.infoErr != nil {
		r.unseen(Replication, v.infoErr, "+info")
		return
	}
	if v.info["role"] != "master" {
		return
	}
	replicas, good, late := s.replicas(v)
	least := v.settings["min-replicas-to-write"]
	needed, _ := strconv.Atoi(least.value)
	replaced := s.BehindSentinel || s.InCluster
	detail := fmt.Sprintf("%d replicas, %d in time, min-replicas-to-write %s", replicas, good,
		cmp.Or(least.value, "not known"))
	switch {
	case needed > good:
		r.add(lock.SeverityError, Replication, detail+": it refuses locks",
			"start its replicas, or lower min-replicas-to-write")
	case good < s.Replicas:
		r.add(lock.SeverityError, Replication,
			fmt.Sprintf("%s: locks are refused, as redis.wait_replicas is %d", detail, s.Replicas),
			"start its replicas, or lower redis.wait_replicas")
	case replicas == 0 && replaced:
		r.add(lock.SeverityWarning, Replication, detail+": nothing can take its place", "start a replica")
	case len(late) > 0:
		r.add(lock.SeverityWarning, Replication, detail+"; behind or not in step: "+strings.Join(late, ", "),
			"see the log of the replica, and its network")
	case least.value == "0" && replaced:
		r.add(lock.SeverityWarning, Replication,
			detail+": a master that was cut off goes on granting locks that the next one does not know",
			"CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 2 on each server")
	default:
		r.ok(Replication, "%s", detail)
	}
}

// replicas says how many replicas there are, how many of them are in step, and which are late.
func (s Server) replicas(v *view) (all, good int, late []string) {
	all = int(v.number("connected_slaves"))
	for i := range all {
		// ip=127.0.0.1,port=6380,state=online,offset=14,lag=0
		told := make(map[string]string)
		for part := range strings.SplitSeq(v.info[fmt.Sprint("slave", i)], ",") {
			name, value, _ := strings.Cut(part, "=")
			told[name] = value
		}
		lag, err := strconv.Atoi(told["lag"])
		if told["state"] == "online" && err == nil && lag <= maxLag {
			good++
			continue
		}
		late = append(late, fmt.Sprintf("%s:%s (%s, %s s)", told["ip"], told["port"], told["state"], told["lag"]))
	}
	return all, good, late
}
