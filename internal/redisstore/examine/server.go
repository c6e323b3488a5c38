package examine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// maxAhead is how far the clock of a server may be away from ours. It is nothing beside a TTL, and what NTP keeps.
	maxAhead = time.Second
	// crowded is which part of maxmemory may be used.
	crowded = 0.8
	// shortIdle is what timeout should not be below: what lockd sends in idle times comes every three seconds at least.
	shortIdle = 30
	// The output buffer of a connection that hears messages should be allowed to grow to so many bytes, at once and for
	// longer.
	leastHard, leastSoft = 8 << 20, 1 << 20
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

// short has no more digits than somebody reads.
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

// count is a setting, -1 if it is not known.
func (v *view) count(name string) int64 {
	n, err := strconv.ParseInt(v.settings[name].value, 10, 64)
	if err != nil || v.settings[name].err != nil {
		return -1
	}
	return n
}

func (s Server) checkConnections(r *report, v *view) {
	s.checkBuffer(r, v.settings["client-output-buffer-limit"])
	switch idle := v.count("timeout"); {
	case idle < 0:
		r.unseen(IdleTimeout, v.settings["timeout"].err, "+config|get")
	case idle > 0 && idle < shortIdle:
		r.add(lock.SeverityWarning, IdleTimeout,
			fmt.Sprintf("connections are cut that are idle for %d s: after a pause requests wait for new ones", idle),
			"CONFIG SET timeout 0, or 300")
	default:
		r.ok(IdleTimeout, "timeout is %d", idle)
	}
}

// checkBuffer looks whether the connection that hears messages would be cut too soon.
func (s Server) checkBuffer(r *report, limits setting) {
	words := strings.Fields(limits.value)
	for i := 0; i+3 < len(words); i += 4 {
		if words[i] != "pubsub" {
			continue
		}
		hard, _ := strconv.ParseInt(words[i+1], 10, 64)
		soft, _ := strconv.ParseInt(words[i+2], 10, 64)
		detail := "pubsub " + strings.Join(words[i+1:i+4], " ")
		if hard > 0 && hard < leastHard || soft > 0 && soft < leastSoft {
			r.add(lock.SeverityWarning, OutputBuffer,
				detail+": in a hurry the connection that hears of releases is cut, and waiters look by themselves",
				`CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"`)
		} else {
			r.ok(OutputBuffer, "%s", detail)
		}
		return
	}
	r.unseen(OutputBuffer, limits.err, "+config|get")
}
