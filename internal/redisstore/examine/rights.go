package examine

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// rightsScript asks which commands the user may not run.
//
//go:embed rights.lua
var rightsScript string

// needs are the commands that lockd runs on lock keys and its own keys, as ARGV of rightsScript. None of them is run.
func (s Server) needs() (all []any) {
	n := s.Prefix + "n"
	on := func(key string, commands ...string) {
		for _, c := range commands {
			words := strings.ReplaceAll(c, " ", "\n") // one in a line: keys may have spaces
			all = append(all, strings.Replace(words, "KEY", key, 1))
		}
	}
	on(n, "HSET KEY f v", "HSETNX KEY f v", "HGET KEY f", "HMGET KEY f", "HGETALL KEY", "HKEYS KEY", "HLEN KEY",
		"HEXISTS KEY f", "HDEL KEY f",
		"HRANDFIELD KEY", "DEL KEY", "UNLINK KEY", "PEXPIRE KEY 1", "PTTL KEY", "EXISTS KEY", "TYPE KEY", "INCRBY KEY 1",
		"DECRBY KEY 1",
		"GET KEY", "SET KEY v")
	on(layout.Token(n), "GET KEY", "SET KEY v", "PTTL KEY", "PEXPIRE KEY 1", "MGET KEY")
	on(layout.Queue(n), "RPUSH KEY v", "LPUSH KEY v", "LREM KEY 0 v", "LINDEX KEY 0", "LLEN KEY", "LRANGE KEY 0 1",
		"LPOS KEY v", "LSET KEY 0 v",
		"LTRIM KEY 0 1", "PEXPIRE KEY 1", "PERSIST KEY")
	on(layout.Timeouts(n), "ZADD KEY 1 v", "ZREM KEY v", "ZSCORE KEY v", "ZMSCORE KEY v", "ZCARD KEY", "ZCOUNT KEY 0 1",
		"ZRANGE KEY 0 1",
		"ZRANGEBYSCORE KEY 0 1", "PERSIST KEY")
	on(layout.Channel(n), "PUBLISH KEY 0", "SUBSCRIBE KEY")
	on(layout.NewsChannel(n), "PUBLISH KEY 0", "SUBSCRIBE KEY")
	on(layout.Control, "PUBLISH KEY 0", "SUBSCRIBE KEY")
	on(s.Data, "GET KEY", "SET KEY v NX")
	on(layout.Declaration(s.Prefix), "GET KEY", "SET KEY v NX", "PEXPIRE KEY 1")
	on(layout.Prefixes, "ZADD KEY 1 v", "ZREMRANGEBYSCORE KEY 0 1", "ZRANGE KEY 0 1", "PEXPIRE KEY 1")
	on(layout.Session(s.Prefix, "n"), "HSET KEY f v")
	on(layout.Control, "PUBSUB NUMSUB KEY", "EVALSHA 0 0", "SCRIPT LOAD 0", "TIME", "SCAN 0", "PING",
		"CLIENT ID", "CLIENT KILL ID 1", "INFO server")
	if s.BehindSentinel {
		on("", "ROLE")
	}
	if s.Replicas > 0 {
		on("", "WAIT 1 0")
	}
	if s.InCluster {
		on(layout.Channel(n), "CLUSTER SLOTS", "ASKING", "SPUBLISH KEY 0", "SSUBSCRIBE KEY")
	}
	return all
}

func (s Server) checkRights(r *report, v *view) {
	switch {
	case redis.IsPermissionError(v.rightErr):
		r.add(lock.SeverityError, Rights, "lockd's user may not run scripts: "+v.rightErr.Error(),
			"give it the rights +eval +evalsha +script|load")
		return
	case v.rightErr != nil:
		r.add(lock.SeverityError, Rights, "a script fails: "+v.rightErr.Error(), "use a server that runs scripts")
		return
	}
	const page = "; docs/redis-keys.md has the command that makes a user with all of them"
	missing := slices.Compact(slices.Sorted(slices.Values(v.rights)))
	switch {
	case slices.Equal(missing, []string{"?"}):
		r.add(lock.SeverityInfo, Rights, "could not be looked at: servers before Redis 7.0 do not tell",
			"if lockd reports NOPERM, ACL LOG says what is missing")
	case len(missing) > 0:
		r.add(lock.SeverityError, Rights,
			fmt.Sprintf("lockd's user lacks %d rights: %s", len(missing), strings.Join(missing, ", ")),
			"give it these rights"+page)
	default:
		r.ok(Rights, "lockd's user may do all that lockd does")
	}
}

// checkKeys looks at lockd's own key for the id of the data.
func (s Server) checkKeys(r *report, v *view) {
	switch {
	case v.dataErr != nil:
		r.unseen(DataKey, v.dataErr, "+type +pttl, and ~"+s.Data)
	case v.dataType == "none":
		r.add(lock.SeverityInfo, DataKey, s.Data+" is not there yet", "")
	case v.dataType != "string":
		r.add(lock.SeverityError, DataKey,
			s.Data+" is a "+v.dataType+": somebody else uses lockd's key, and losses of data are not noticed",
			"DEL "+s.Data)
	case v.dataTTL >= 0:
		r.add(lock.SeverityWarning, DataKey,
			fmt.Sprintf("%s ends in %v: then lost locks are told DATA_LOSS though the data are there", s.Data, v.dataTTL),
			"PERSIST "+s.Data+", and find out who gave it a TTL")
	default:
		r.ok(DataKey, "%s is there", s.Data)
	}
}
