// Package dataloss knows whether the server that answers may have forgotten holds.
//
// # What it promises
//
// Each server has a run key: the id of a run of the server, and since when the data may lack what the server had, 0 for
// never. Data in memory live as long as the run, so a run key of this run says what they lack. Each new connection
// reads the run key before anything else is sent on it: so a restart, or another server, is noticed before the server
// takes part in anything.
//
// A server without a run key of this run may have forgotten holds. lockd gives it a new one: with the old time if the
// server's disk has every write, else with the present time. All replicas of lockd read the same run key, so they
// agree.
//
// A server that has no run key at all is new, or was emptied. Neither the server nor a replica of lockd can tell which,
// because other replicas may have used it. So it counts as emptied. An operator who knows that it is new sets the run
// key to Mark, which is lost with the data. If all servers are marked, nothing was forgotten (ConfirmNew).
//
// # What it does not promise
//
// FLUSHALL ends no connection. It is noticed by the next Check.
package dataloss

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

// Mark is the run key of a server that is new: nobody can hold anything that it forgot.
const Mark = "new"

// markTime is for how long a server with the mark waits for the others. Then it counts as emptied. It is long, because
// the others may be slow to start. If one of them is down, the quarantine begins that much later.
const markTime = time.Minute

// Lane carries a command to the server.
type Lane func(ctx context.Context, cmd *redis.Cmd) error

// Detector knows whether the server at one address may have forgotten holds.
type Detector struct {
	key func() string
	log *zap.Logger

	mu     sync.Mutex // guards the fields below
	run    string     // of the server that was met last; empty if none was
	valid  bool       // the run key is of this run
	marked bool       // the run key is Mark
	forgot bool       // the server may have forgotten holds
	since  time.Time  // when it did
}

// New makes a Detector that has met no server. key returns the name of the run key.
func New(key func() string, log *zap.Logger) *Detector { return &Detector{key: key, log: log} }

// DataLoss says whether the server may have forgotten holds, and since when it has forgotten none. A server that is not
// known may have forgotten holds just now.
func (d *Detector) DataLoss() (since time.Time, may bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run == "" {
		return time.Now(), true
	}
	return d.since, d.forgot
}

// Marked says whether the server is marked as new.
func (d *Detector) Marked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run != "" && d.marked
}

const readRunKey = `local t = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', math.floor(t[1] * 1000 + t[2] / 1000)}`

// Meet looks at the server of a new connection. It fails if the connection does.
func (d *Detector) Meet(ctx context.Context, c *redis.Client) error {
	info, text := redis.NewCmd(ctx, "info", "server"), d.readCmd(ctx)
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, info)
		return p.Process(ctx, text)
	})
	if err != nil {
		return d.failed(cmp.Or(info.Err(), text.Err(), err))
	}
	return d.answered(info, text)
}

// Check looks at the server again, and gives it a run key if it has none of this run. It waits markTime if the server
// is marked.
func (d *Detector) Check(ctx context.Context, via Lane) error {
	if err := d.again(ctx, via); err != nil {
		return err
	}
	d.mu.Lock()
	valid, wait := d.valid, d.marked && time.Since(d.since) < markTime
	d.mu.Unlock()
	if valid || wait {
		return nil
	}
	how := "lost"
	if d.durable(ctx, via) {
		how = "durable"
	}
	return d.write(ctx, via, how)
}

// ConfirmNew gives a server that is marked as new a run key that says that nothing was forgotten.
func (d *Detector) ConfirmNew(ctx context.Context, via Lane) error { return d.write(ctx, via, "new") }

func (d *Detector) again(ctx context.Context, via Lane) error {
	info, text := redis.NewCmd(ctx, "info", "server"), d.readCmd(ctx)
	err := via(ctx, info)
	if err == nil {
		err = via(ctx, text)
	}
	if err != nil { // the commands may still be answered
		return d.failed(err)
	}
	return d.answered(info, text)
}

func (d *Detector) readCmd(ctx context.Context) *redis.Cmd {
	return redis.NewCmd(ctx, "eval", readRunKey, 1, d.key())
}

// failed is the error for the caller. If the server refuses INFO or EVAL, it counts as unknown.
func (d *Detector) failed(err error) error {
	if redis.IsPermissionError(err) {
		d.mu.Lock()
		d.run = "" // so it never votes
		d.mu.Unlock()
		return fmt.Errorf("a member of a majority must allow INFO and EVAL: %w", err)
	}
	return err
}

// answered notes what the server said.
func (d *Detector) answered(info, text *redis.Cmd) error {
	all, err := info.Text()
	if err != nil {
		return err
	}
	answer, err := text.Slice()
	if err != nil || len(answer) != 2 {
		return fmt.Errorf("the run key cannot be read: %w", err)
	}
	value, _ := answer[0].(string)
	now, _ := answer[1].(int64)
	run := pipe.InfoField(all, "run_id")
	if !d.note(run, value, now) {
		return nil
	}
	d.log.Debug("redis may have forgotten locks", zap.String(observe.KeyRunID, run))
	if value == "" {
		d.log.Warn("redis has no data of lockd: it is new, or was emptied", zap.String(observe.KeyRunID, run),
			zap.String(observe.KeyRemedy, "wait for redlock.quarantine; or, if all masters are new and nobody can hold a lock: "+
				"stop lockd, SET "+d.key()+" "+Mark+" on each of them, and start it"))
	}
	return nil
}

// note notes a run and the run key. It says whether it is news that the server may have forgotten holds. now is the
// server's time in ms.
func (d *Detector) note(run, value string, now int64) bool {
	of, text, _ := strings.Cut(value, " ")
	since, err := strconv.ParseInt(text, 10, 64)
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.run == run && !d.valid && d.forgot
	d.run, d.marked, d.valid = run, value == Mark, err == nil && of == run
	switch {
	case d.valid:
		d.forgot = since > 0
		d.since = time.Now().Add(-time.Duration(now-since) * time.Millisecond)
	case !known:
		d.forgot, d.since = true, time.Now()
		return true
	}
	return false
}

// write stores a run key of this run, unless there is one, and reads it. With new it replaces only the mark.
const write = `local text = redis.call('GET', KEYS[1])
local run, since = string.match(text or '', '^(%S+) (%d+)$')
if run == ARGV[1] or ARGV[2] == 'new' and text ~= 'new' then return 0 end
if ARGV[2] == 'new' then
  since = '0'
elseif ARGV[2] ~= 'durable' or not since then
  local t = redis.call('TIME')
  since = string.format('%.0f', t[1] * 1000 + t[2] / 1000)
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. since)
return 1`

func (d *Detector) write(ctx context.Context, via Lane, how string) error {
	d.mu.Lock()
	run := d.run
	d.mu.Unlock()
	if run == "" {
		return nil
	}
	if err := via(ctx, redis.NewCmd(ctx, "eval", write, 1, d.key(), run, how)); err != nil {
		return err
	}
	return d.again(ctx, via)
}

// noReplica is the second replication id of a server that was no replica before.
const noReplica = "0000000000000000000000000000000000000000"

// durable says whether the server's disk has every write that it answered, and it always was a master. In doubt it says
// no.
func (d *Detector) durable(ctx context.Context, via Lane) bool {
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
