package renew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
)

// ErrUnfit: this server cannot be used, and waiting does not help.
var ErrUnfit = errors.New("this redis cannot be used")

// The oldest Redis on which our scripts run.
const (
	minMajor = 6
	minMinor = 2
)

// Probe implements lock.Store. The identity is the run id of the server. Probe fails as long as the server cannot be
// used, for example because it is a replica. It logs what is wrong with the settings of a server that it meets for the
// first time.
func (s *Renewer) Probe(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("probe: %w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
	var data dataAnswer
	var wg sync.WaitGroup
	wg.Go(func() { data = s.askData(ctx) }) // at the same time as INFO
	asked := redis.NewCmd(ctx, "info")
	err := s.Steady.Probe(ctx, asked)
	wg.Wait()
	info := ""
	if err == nil { // else the answer may just be coming
		info, err = asked.Text()
	}
	id, version := pipe.InfoField(info, "run_id"), pipe.InfoField(info, "redis_version")
	forbidden := redis.IsPermissionError(err)
	if forbidden { // restarts are noticed by renewals only
		id, version, info = unknown, unknown, ""
		err = s.Steady.Probe(ctx, redis.NewCmd(ctx, "ping"))
	}
	if err != nil {
		return "", fmt.Errorf("probe: %w", s.Failed(err))
	}
	if err := fit(info); err != nil {
		s.TellDemoted()
		return "", s.unfit(id, err)
	}
	if err := s.checkData(ctx, id, data); err != nil {
		return "", fmt.Errorf("probe: %w", s.Failed(err))
	}
	switch other := s.passed(ctx, id, version); {
	case other && forbidden:
		s.log.Error("redis refuses INFO, so "+pipe.NotEnded, zap.String(observe.KeyRemedy, pipe.RemedyNotEnded))
	case other && infoMode(info) == "cluster" && !s.InSlots:
		s.log.Error("redis is a node of a cluster, and used as if it were alone: names in the slots of other nodes cannot "+
			"be locked",
			zap.String(observe.KeyRemedy, "use store.kind cluster, with the addresses of the nodes in redis.cluster.addrs"))
	}
	return id, nil
}

// unknown is the run id and the version of a server that refuses INFO.
const unknown = "unknown"

// fit says by INFO why a server cannot be used, nil if it can.
func fit(info string) error {
	if infoMode(info) == "sentinel" {
		return fmt.Errorf("%w: it is a sentinel, which keeps no data: give its address as redis.sentinel.addrs, with "+
			"store.kind sentinel", ErrUnfit)
	}
	if role := pipe.InfoField(info, "role"); role != "" && role != "master" {
		return fmt.Errorf("%w: it is a %s, not a master", ErrUnfit, role)
	}
	if version := pipe.InfoField(info, "redis_version"); tooOld(version) {
		return fmt.Errorf("%w: version %s, need %d.%d or newer", ErrUnfit, version, minMajor, minMinor)
	}
	return nil
}

// tooOld says whether a version of Redis is too old for our scripts. A version of another form is not: it may be that
// of another server than Redis.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errors.Join(errA, errB) == nil && (a < minMajor || a == minMajor && b < minMinor)
}

// passed notes a server that can be used. It says whether it is another one than at the last probe, and looks at the
// settings then.
func (s *Renewer) passed(ctx context.Context, id, version string) (other bool) {
	s.mu.Lock()
	before := s.checked
	s.checked = id
	s.mu.Unlock()
	if before == id {
		return false
	}
	if before != "" {
		s.Restarts.Inc()
	}
	s.log.Info("redis is there", zap.String(observe.KeyVersion, version), zap.String(observe.KeyRunID, id))
	ctx = context.WithoutCancel(ctx)
	s.checkEviction(ctx)
	s.checkRefused(ctx, []any{"client", "kill", "id", math.MaxInt64}, // nobody has this id
		"redis refuses CLIENT KILL, so "+pipe.NotEnded, pipe.RemedyNotEnded)
	if s.Wait {
		s.checkRefused(ctx, []any{"wait", 0, 1}, "redis refuses WAIT, so no lock can be taken",
			"set redis.wait_replicas to 0, or give the user of redis.username the right to WAIT")
	}
	return true
}

// checkRefused logs so if the server refuses a command that is needed.
func (s *Renewer) checkRefused(ctx context.Context, command []any, so, remedy string) {
	err := s.Steady.Probe(ctx, redis.NewCmd(ctx, command...))
	if _, replied := errors.AsType[redis.Error](err); replied {
		s.log.Error(so, zap.Error(err), zap.String(observe.KeyRemedy, remedy))
	}
}

// unfit notes a server that cannot be used, and logs that once.
func (s *Renewer) unfit(id string, err error) error {
	s.mu.Lock()
	known := s.warnedOf == id && s.checked == ""
	s.warnedOf, s.checked = id, ""
	s.mu.Unlock()
	if !known {
		s.log.Error("redis cannot be used", zap.Error(err), zap.String(observe.KeyRunID, id))
	}
	return fmt.Errorf("probe: %w: %w", lock.ErrUnavailable, err)
}

// checkEviction warns if the server may throw locks away to make room.
func (s *Renewer) checkEviction(ctx context.Context) {
	cmd := redis.NewCmd(ctx, "config", "get", "maxmemory-policy")
	err := s.Steady.Probe(ctx, cmd)
	var found []any
	if err == nil { // else the answer may just be coming
		found, err = cmd.Slice()
	}
	if err == nil && len(found) < 2 {
		err = script.ErrBadAnswer
	}
	if err != nil {
		s.log.Debug("the eviction policy of redis is not known", zap.Error(err))
		return
	}
	if policy := fmt.Sprint(found[1]); policy != "noeviction" {
		s.log.Warn("redis may evict locks and fences when it is full: set maxmemory-policy to noeviction",
			zap.String(observe.KeyPolicy, policy))
	}
}

// infoMode is what a server runs as: standalone, cluster or sentinel.
func infoMode(info string) string {
	return cmp.Or(pipe.InfoField(info, "redis_mode"), pipe.InfoField(info, "server_mode")) // the second is Valkey's
}
