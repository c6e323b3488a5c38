// Package vouch knows whether the server that answers may have forgotten holds.
//
// # What it promises
//
// Each server has a key, its voucher: the id of a run of the server, and since when its data may lack what they had, 0
// for never. Data in memory live as long as the run, so a voucher with the id of this run vouches for them. Each new
// connection looks at it before anything else is sent on it: a server that was restarted, or another one, is noticed
// before it takes part in anything.
//
// A server without such a voucher may have forgotten holds. One whose disk has every write gets a new voucher at once;
// any other one a voucher that says since when. All replicas of lockd read the same, so they agree.
//
// A server that has no voucher at all is new, or was emptied: it cannot tell, and no replica of lockd can, as others
// may have used it. So it counts as emptied. An operator who knows that it is new writes the voucher Mark, which is
// lost with the data. If all servers are marked so, nothing was forgotten (Found).
//
// # What it does not promise
//
// FLUSHALL ends no connection. It is noticed by the next Check.
package vouch

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// Mark is the voucher of a server that is new: nobody can hold anything that it forgot.
const Mark = "new"

// markTime is for how long a server with the mark waits for the others. Then it counts as emptied. It is long, as the
// others may be slow to start; if one of them is down, the quarantine begins that much later.
const markTime = time.Minute

// Lane carries a command to the server.
type Lane func(ctx context.Context, cmd *redis.Cmd) error

// Voucher is what is known of the server at an address.
type Voucher struct {
	key func() string
	log *zap.Logger

	mu     sync.Mutex // guards the fields below
	run    string     // of the server that was met last; empty if none was
	valid  bool       // its voucher is that of this run
	marked bool       // it is Mark
	fresh  bool       // it may have forgotten holds
	since  time.Time  // when that was
}

// New knows nothing yet. key is where the voucher is.
func New(key func() string, log *zap.Logger) *Voucher { return &Voucher{key: key, log: log} }

// Fresh says whether the server may have forgotten holds, and since when it has all. One that is not known may have
// just now.
func (v *Voucher) Fresh() (since time.Time, fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run == "" {
		return time.Now(), true
	}
	return v.since, v.fresh
}

// Marked says whether the server is marked as new.
func (v *Voucher) Marked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.run != "" && v.marked
}

// readVoucher reads it, and the time in ms.
const readVoucher = `local t = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', math.floor(t[1] * 1000 + t[2] / 1000)}`

// Meet looks at the server of a new connection. It fails if the connection does.
func (v *Voucher) Meet(ctx context.Context, c *redis.Client) error {
	info, text := redis.NewCmd(ctx, "info", "server"), v.readCmd(ctx)
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, info)
		return p.Process(ctx, text)
	})
	if err != nil {
		return v.failed(cmp.Or(info.Err(), text.Err(), err))
	}
	return v.answered(info, text)
}

// Check looks at the server again, and gives it a voucher if it needs one.
func (v *Voucher) Check(ctx context.Context, via Lane) error {
	if err := v.again(ctx, via); err != nil {
		return err
	}
	v.mu.Lock()
	valid, wait := v.valid, v.marked && time.Since(v.since) < markTime
	v.mu.Unlock()
	if valid || wait {
		return nil
	}
	how := "fresh"
	if v.durable(ctx, via) {
		how = "durable"
	}
	return v.write(ctx, via, how)
}

// Found gives a server that is marked as new a voucher that says that nothing was forgotten.
func (v *Voucher) Found(ctx context.Context, via Lane) error { return v.write(ctx, via, "found") }

func (v *Voucher) again(ctx context.Context, via Lane) error {
	info, text := redis.NewCmd(ctx, "info", "server"), v.readCmd(ctx)
	err := via(ctx, info)
	if err == nil {
		err = via(ctx, text)
	}
	if err != nil { // the commands may be answered yet
		return v.failed(err)
	}
	return v.answered(info, text)
}

func (v *Voucher) readCmd(ctx context.Context) *redis.Cmd {
	return redis.NewCmd(ctx, "eval", readVoucher, 1, v.key())
}

// failed is the error of who asked.
func (v *Voucher) failed(err error) error {
	if redis.IsPermissionError(err) {
		v.mu.Lock()
		v.run = "" // so it never votes
		v.mu.Unlock()
		return fmt.Errorf("a member of a majority must allow INFO and EVAL: %w", err)
	}
	return err
}

// answered notes what the server said.
func (v *Voucher) answered(info, text *redis.Cmd) error {
	all, err := info.Text()
	if err != nil {
		return err
	}
	answer, err := text.Slice()
	if err != nil || len(answer) != 2 {
		return fmt.Errorf("the voucher cannot be read: %w", err)
	}
	voucher, _ := answer[0].(string)
	now, _ := answer[1].(int64)
	run := pipe.InfoField(all, "run_id")
	if !v.forgot(run, voucher, now) {
		return nil
	}
	v.log.Debug("redis may have forgotten locks", zap.String(observe.KeyRunID, run))
	if voucher == "" {
		v.log.Warn("redis has no data of lockd: it is new, or was emptied", zap.String(observe.KeyRunID, run),
			zap.String(observe.KeyRemedy, "wait for redlock.quarantine; or, if all masters are new and nobody can hold a lock: "+
				"stop lockd, SET "+v.key()+" "+Mark+" on each of them, and start it"))
	}
	return nil
}

// forgot notes a run and its voucher, and says whether the server may have forgotten holds, which was not known before.
// now is the server's time in ms.
func (v *Voucher) forgot(run, voucher string, now int64) bool {
	of, text, _ := strings.Cut(voucher, " ")
	since, err := strconv.ParseInt(text, 10, 64)
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.run == run && !v.valid && v.fresh
	v.run, v.marked, v.valid = run, voucher == Mark, err == nil && of == run
	switch {
	case v.valid:
		v.fresh = since > 0
		v.since = time.Now().Add(-time.Duration(now-since) * time.Millisecond)
	case !known:
		v.fresh, v.since = true, time.Now()
		return true
	}
	return false
}

// write stores a voucher for this run, unless there is one, and reads it. Found finds only what is marked.
const write = `local text = redis.call('GET', KEYS[1])
local run, since = string.match(text or '', '^(%S+) (%d+)$')
if run == ARGV[1] or ARGV[2] == 'found' and text ~= 'new' then return 0 end
if ARGV[2] == 'found' then
  since = '0'
elseif ARGV[2] ~= 'durable' or not since then
  local t = redis.call('TIME')
  since = string.format('%.0f', t[1] * 1000 + t[2] / 1000)
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. since)
return 1`

func (v *Voucher) write(ctx context.Context, via Lane, how string) error {
	v.mu.Lock()
	run := v.run
	v.mu.Unlock()
	if run == "" {
		return nil
	}
	if err := via(ctx, redis.NewCmd(ctx, "eval", write, 1, v.key(), run, how)); err != nil {
		return err
	}
	return v.again(ctx, via)
}

// noReplica is the second replication id of a server that was no replica before.
const noReplica = "0000000000000000000000000000000000000000"

// durable says whether the server has on its disk whatever it ever said, and always was the master. In doubt it has
// not.
func (v *Voucher) durable(ctx context.Context, via Lane) bool {
	info := redis.NewCmd(ctx, "info", "replication")
	if via(ctx, info) != nil {
		return false
	}
	if all, err := info.Text(); err != nil || pipe.InfoField(all, "master_replid2") != noReplica {
		return false
	}
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
		cmd := redis.NewCmd(ctx, "config", "get", name)
		if via(ctx, cmd) != nil {
			return false
		}
		pair, err := cmd.StringSlice()
		if err != nil || len(pair) != 2 || pair[1] != want {
			return false
		}
	}
	return true
}
