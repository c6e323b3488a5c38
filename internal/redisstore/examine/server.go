package examine

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// maxAhead is by how much the clock of a server may differ from ours. It is small beside a TTL, and NTP keeps clocks
	// closer.
	maxAhead = time.Second
	// crowded is from which part of maxmemory on a server is nearly full.
	crowded = 0.8
)

func (s Server) checkClock(r *report, c clock, err error) {
	if slow := s.OpTime / 4; c.longest > slow {
		r.add(lock.SeverityWarning, Latency,
			fmt.Sprintf("round trips of %v to %v, with redis.op_timeout %v", short(c.shortest), short(c.longest), s.OpTime),
			"see what keeps the server or the network busy (SLOWLOG, latency doctor), or raise redis.op_timeout for a server "+
				"far away")
	} else {
		r.ok(Latency, "round trips of %v to %v", short(c.shortest), short(c.longest))
	}
	if err != nil {
		r.unseen(Clock, err, "+time")
		return
	}
	detail := fmt.Sprintf("the server's clock is %v ahead of ours, give or take %v", short(c.ahead), short(c.unsure))
	if c.ahead < 0 {
		detail = fmt.Sprintf("the server's clock is %v behind ours, give or take %v", short(-c.ahead), short(c.unsure))
	}
	if c.ahead.Abs()-c.unsure > maxAhead {
		r.add(lock.SeverityWarning, Clock, detail,
			"run NTP on both machines: fences come from the clocks of the servers, and fair locks "+
				"shared with Redisson compare times of its clients with them")
		return
	}
	r.ok(Clock, "%s", detail)
}

// short rounds d to the digits that a person reads.
func short(d time.Duration) time.Duration {
	if d < time.Millisecond && d > -time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

func (s Server) checkMemory(r *report, v *view) {
	if v.infoErr != nil {
		r.unseen(Policy, v.infoErr, "+info")
		r.unseen(Memory, v.infoErr, "+info")
		return
	}
	evicted := ""
	if n := v.number("evicted_keys"); n > 0 {
		evicted = fmt.Sprintf("; %d keys were evicted since its start", n)
	}
	switch policy := v.info["maxmemory_policy"]; {
	case policy == "":
		r.unseen(Policy, nil, "")
	case policy != "noeviction":
		r.add(lock.SeverityError, Policy, policy+": a full server throws locks and fences away"+evicted,
			"CONFIG SET maxmemory-policy noeviction, and the same in its configuration")
	case evicted != "":
		r.add(lock.SeverityWarning, Policy, policy+evicted+": locks may have been among them",
			"CONFIG RESETSTAT, once you know")
	default:
		r.ok(Policy, "%s", policy)
	}
	most, used := v.number("maxmemory"), v.number("used_memory")
	part := float64(used) / float64(max(most, 1))
	detail := fmt.Sprintf("%d MiB of %d MiB are used (%.0f %%)", used>>20, most>>20, math.Min(part*100, 999))
	const remedy = "raise maxmemory, remove other keys, or shorten redis.fence_ttl if each name is used only once"
	switch {
	case most == 0:
		r.ok(Memory, "%d MiB are used, without a limit", used>>20)
	case part >= 1:
		r.add(lock.SeverityError, Memory, detail+": new locks are refused (STORE_FULL)", remedy)
	case part >= crowded:
		r.add(lock.SeverityWarning, Memory, detail+": when it is full, new locks are refused (STORE_FULL)", remedy)
	default:
		r.ok(Memory, "%s", detail)
	}
}

// number is a field of INFO, 0 if there is none.
func (v *view) number(field string) int64 {
	n, _ := strconv.ParseInt(v.info[field], 10, 64)
	return n
}
