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

// libraryMark begins a line in a script that stands for the files it names. What stands before it runs without them.
const libraryMark = "-- library: "

// lua is the text of a script: some files that are put in front of it, and its own.
func lua(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		text, err := luaFiles.ReadFile(f + ".lua")
		if err != nil {
			panic(err) // it is built in
		}
		for line := range strings.Lines(string(text)) {
			if names, ok := strings.CutPrefix(strings.TrimSpace(line), libraryMark); ok {
				line = lua(strings.Fields(names)...)
			}
			b.WriteString(line)
		}
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

func newScript(name, text string, m *metrics) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{
		text: text, sha: hex.EncodeToString(sum[:]),
		seconds: m.seconds.WithLabelValues(name), loads: m.scriptLoads,
	}
}

// scripts are the verbs of a Store. What bears no kind is for exclusive locks, or for all.
type scripts struct {
	acquire, release, force, many               *script
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
		sc := newScript(name, lua(append(before, name)...), m)
		all = append(all, sc)
		return sc
	}
	fair := []string{"news", "clock", "advance", "fence", "plain", "fair"}
	rw := []string{"news", "advance", "fence", "rw"}
	permits := []string{"news", "clock", "advance", "fence", "semaphore"}
	s := scripts{
		acquire:        load("acquire", "advance", "take"),
		release:        load("release", "news", "free"),
		many:           load("many", "news", "advance", "take", "free"),
		force:          load("force", "news", "advance", "fence"),
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
		shorten:        load("shorten", "news", "clock", "advance", "fence", "rw", "semaphore"),
		acquireAll:     load("acquire_all", "news", "clock", "advance", "fence", "plain", "fair", "rw", "semaphore"),
		renew:          load("renew", "news", "clock", "advance", "fence", "rw", "semaphore"),
		look:           load("look", "news", "clock", "advance", "fence", "rw", "semaphore"),
		holders:        load("holders", rw...),
		sight:          load("sight", "news", "clock", "advance", "fence", "rw"),
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

// lane carries a command with a cost to Redis and waits for its answer, until ctx ends. After ctx ended, the command must not
// be looked at any more.
type lane func(ctx context.Context, cmd *redis.Cmd, cost int) error

// call is one call of a script: what it is told, the keys first.
type call struct {
	*script
	keys  int
	words []any
	cost  int // see line.go
}

// with is a call of the script.
func (sc *script) with(keys []string, args ...any) call {
	words := make([]any, 0, len(keys)+len(args))
	for _, k := range keys {
		words = append(words, k)
	}
	words = append(words, args...)
	return call{sc, len(keys), words, costOf(len(words))}
}

// observe takes note of how long a call took.
func (sc *script) observe(begun time.Time) { sc.seconds.Observe(time.Since(begun).Seconds()) }

// start is run on a pipeline without waiting: done is told once, later, by a goroutine that it must not block.
func (c call) start(p *pipeline, done func(*redis.Cmd, error)) {
	begun := time.Now()
	sent := c.packet(p, func(cmd *redis.Cmd, err error) {
		c.observe(begun)
		done(cmd, err)
	})
	if err := p.put(job{cmd: sent.cmd, done: sent.done, queued: begun, cost: c.cost}); err != nil {
		go sent.done(err)
	}
}

// run executes the script once and returns the command with its answer.
//
// Redis may have forgotten the script, by SCRIPT FLUSH or because it is another one by now. Then it did nothing, and
// the same attempt goes on with the text. EVAL makes Redis remember the script, but since 7.4 only for a while;
// therefore one caller loads it for good.
func (c call) run(ctx context.Context, via lane) (*redis.Cmd, error) {
	defer c.observe(time.Now())
	return c.send(ctx, via)
}

func (c call) send(ctx context.Context, via lane) (*redis.Cmd, error) {
	cmd := c.command(ctx, "evalsha", &c.sha)
	err := via(ctx, cmd, c.cost)
	if !forgotten(err) {
		return cmd, err
	}
	if c.loading.CompareAndSwap(false, true) {
		c.loads.Inc()
		go func() { // EVAL below tells what is wrong, if anything
			defer c.loading.Store(false)
			ctx := context.WithoutCancel(ctx) // the caller goes on
			_ = via(ctx, redis.NewCmd(ctx, "script", "load", c.text), 1)
		}()
	}
	cmd = c.command(ctx, "eval", &c.text)
	return cmd, via(ctx, cmd, c.cost)
}

// packet is the call as part of a batch. done is told once, by a goroutine that it must not block.
func (c call) packet(p *pipeline, done func(*redis.Cmd, error)) packet {
	cmd := c.command(context.Background(), "evalsha", &c.sha)
	return packet{cmd, func(err error) {
		if !forgotten(err) {
			done(cmd, err)
			return
		}
		// Redis did nothing; what follows is send, which may wait.
		go func() { done(c.send(context.Background(), p.do)) }()
	}}
}

// forgotten says whether Redis did nothing because it does not know the script.
func forgotten(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// command builds EVALSHA or EVAL.
func (c call) command(ctx context.Context, verb string, what *string) *redis.Cmd {
	all := make([]any, 0, 3+len(c.words))
	all = append(all, verb, what, c.keys)
	cmd := redis.NewCmd(ctx, append(all, c.words...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}
