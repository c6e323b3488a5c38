package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

//go:embed fence.lua
var fenceLua string

//go:embed acquire.lua
var acquireLua string

//go:embed release.lua
var releaseLua string

//go:embed renew.lua
var renewLua string

//go:embed force.lua
var forceLua string

//go:embed look.lua
var lookLua string

// script is one verb.
type script struct {
	text, sha string
	seconds   prometheus.Observer
	loads     prometheus.Counter
	loading   atomic.Bool // somebody is sending SCRIPT LOAD
}

// scripts are the verbs of a Store.
type scripts struct{ acquire, release, renew, force, look *script }

func newScripts(m *metrics) scripts {
	load := func(name, text string) *script {
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		return &script{
			text: text, sha: hex.EncodeToString(sum[:]),
			seconds: m.seconds.WithLabelValues(name), loads: m.scriptLoads,
		}
	}
	return scripts{
		acquire: load("acquire", fenceLua+acquireLua),
		release: load("release", fenceLua+releaseLua),
		renew:   load("renew", renewLua),
		force:   load("force", forceLua),
		look:    load("look", lookLua),
	}
}

// lane carries a command to Redis and waits for its answer, until ctx ends. After ctx ended, the command must not be
// looked at any more.
type lane func(ctx context.Context, cmd *redis.Cmd) error

// run executes the script once and returns the command with its answer.
//
// Redis may have forgotten the script, by SCRIPT FLUSH or because it is another one by now. Then it did nothing, and
// the same attempt goes on with the text. EVAL makes Redis remember the script, but since 7.4 only for a while;
// therefore one caller loads it for good.
func (sc *script) run(ctx context.Context, via lane, keys []string, args ...any) (*redis.Cmd, error) {
	begun := time.Now()
	defer func() { sc.seconds.Observe(time.Since(begun).Seconds()) }()
	cmd := sc.command(ctx, "evalsha", sc.sha, keys, args)
	err := via(ctx, cmd)
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return cmd, err
	}
	if sc.loading.CompareAndSwap(false, true) {
		defer sc.loading.Store(false)
		sc.loads.Inc()
		_ = via(ctx, redis.NewCmd(ctx, "script", "load", sc.text)) // EVAL below tells what is wrong, if anything
	}
	cmd = sc.command(ctx, "eval", sc.text, keys, args)
	return cmd, via(ctx, cmd)
}

// start is run on the shared pipeline without waiting: done is told once, later, by a goroutine that it must not block.
func (sc *script) start(p *pipeline, keys []string, args []any, done func(*redis.Cmd, error)) {
	begun := time.Now()
	finish := func(cmd *redis.Cmd, err error) {
		sc.seconds.Observe(time.Since(begun).Seconds())
		done(cmd, err)
	}
	cmd := sc.command(context.Background(), "evalsha", sc.sha, keys, args)
	err := p.submit(cmd, func(err error) {
		if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			finish(cmd, err)
			return
		}
		// Redis forgot the script and did nothing; what follows is run, which may wait.
		go func() { finish(sc.run(context.Background(), p.do, keys, args...)) }()
	})
	if err != nil {
		go finish(cmd, err)
	}
}

// command builds EVALSHA or EVAL.
func (sc *script) command(ctx context.Context, verb, what string, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, what, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}
