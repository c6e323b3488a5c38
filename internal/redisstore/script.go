package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var luaFiles embed.FS

// lua is the text of a script: some files that are put in front of it, and its own.
func lua(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		text, err := luaFiles.ReadFile(f + ".lua")
		if err != nil {
			panic(err) // it is built in
		}
		b.Write(text)
	}
	return b.String()
}

// script is one verb.
type script struct {
	text, sha string
	seconds   prometheus.Observer
	loads     prometheus.Counter
	loading   atomic.Bool // somebody is sending SCRIPT LOAD
}

// scripts are the verbs of a Store. What bears no kind is for exclusive locks, or for all.
type scripts struct {
	acquire, release, force                     *script
	acquireFair, releaseFair, forceFair         *script
	acquireRead, releaseRead                    *script
	acquireWrite, releaseWrite, forceRW         *script
	acquirePermits, releasePermits, forcePermit *script
	limitPermits, shorten                       *script
	acquireAll, renew, look, holders, sight     *script
	enlist, leaveFair, leaveWrite               *script

	all []*script
}

func newScripts(m *metrics) scripts {
	var all []*script
	load := func(name string, before ...string) *script {
		text := lua(append(before, name)...)
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		sc := &script{
			text: text, sha: hex.EncodeToString(sum[:]),
			seconds: m.seconds.WithLabelValues(name), loads: m.scriptLoads,
		}
		all = append(all, sc)
		return sc
	}
	fair := []string{"news", "clock", "fence", "plain", "fair"}
	rw := []string{"news", "fence", "rw"}
	permits := []string{"news", "clock", "fence", "semaphore"}
	s := scripts{
		acquire:        load("acquire", "fence"),
		release:        load("release", "news", "fence"),
		force:          load("force", "news", "fence"),
		acquireFair:    load("acquire_fair", fair...),
		releaseFair:    load("release_fair", fair...),
		forceFair:      load("force_fair", fair...),
		acquireRead:    load("acquire_read", rw...),
		releaseRead:    load("release_read", rw...),
		acquireWrite:   load("acquire_write", rw...),
		releaseWrite:   load("release_write", rw...),
		forceRW:        load("force_rw", rw...),
		acquirePermits: load("acquire_semaphore", permits...),
		releasePermits: load("release_semaphore", permits...),
		forcePermit:    load("force_semaphore", permits...),
		limitPermits:   load("limit_semaphore", permits...),
		shorten:        load("shorten", "news", "clock", "fence", "rw", "semaphore"),
		acquireAll:     load("acquire_all", "news", "clock", "fence", "plain", "fair", "rw", "semaphore"),
		renew:          load("renew", "news", "clock", "fence", "rw", "semaphore"),
		look:           load("look", "news", "clock", "fence", "rw", "semaphore"),
		holders:        load("holders", rw...),
		sight:          load("sight", "news", "clock", "fence", "rw"),
		enlist:         load("enlist", fair...),
		leaveFair:      load("leave_fair", fair...),
		leaveWrite:     load("leave_write", "news"),
	}
	s.all = all
	return s
}

// texts are all of them.
func (s scripts) texts() []string {
	texts := make([]string, len(s.all))
	for i, sc := range s.all {
		texts[i] = sc.text
	}
	return texts
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
		sc.loads.Inc()
		go func() { // EVAL below tells what is wrong, if anything
			defer sc.loading.Store(false)
			ctx := context.WithoutCancel(ctx) // the caller goes on
			_ = via(ctx, redis.NewCmd(ctx, "script", "load", sc.text))
		}()
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
