package script

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

//go:embed *.lua
var luaFiles embed.FS

// libraryMark begins a line of a script that is replaced by the files that it names. The lines before it run without
// them.
const libraryMark = "-- library: "

// Lua is the text of some files, one after the other: the libraries, and the script itself as the last.
func Lua(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		text, err := luaFiles.ReadFile(f + ".lua")
		if err != nil {
			panic(err) // it is built in
		}
		for line := range strings.Lines(string(text)) {
			if names, ok := strings.CutPrefix(strings.TrimSpace(line), libraryMark); ok {
				line = Lua(strings.Fields(names)...)
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// Script is one verb.
type Script struct {
	Text, SHA string
	seconds   prometheus.Observer
}

// New makes a Script of a text. name is its label in metrics.
func New(name, text string, m *Metrics) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &Script{
		Text: text, SHA: hex.EncodeToString(sum[:]),
		seconds: m.Seconds.WithLabelValues(name),
	}
}

// Scripts are the verbs of a Store. A script without a kind in its name is for exclusive locks, or for all kinds.
type Scripts struct {
	Acquire, AcquireAll, Many                                 *Script
	Release, ReleaseFair, ReleaseRead, ReleaseWrite           *Script
	ReleasePermits, LimitPermits, RemovePermits, AdoptPermits *Script
	Force, ForceFair, ForceRW, ForcePermit                    *Script
	Raise, Renew, Shorten                                     *Script
	Look, Holders, Seen                                       *Script
	Enlist, LeaveFair, LeaveWrite, SucceedFair                *Script
	TakeSession, KeepSession, EndSession, ForceSession        *Script
	Declare, Overlaps                                         *Script

	all []*Script
}

// publishing is how scripts publish on the channels of one name. Where channels have slots, as in a cluster since Redis
// 7.0, shardedPublishing takes its place, as in Redisson. Messages to all replicas are published with 'publish', in
// small letters, which stays, and goes to all nodes.
const (
	publishing        = "call('PUBLISH', "
	shardedPublishing = "call('SPUBLISH', "
)

// NewScripts makes all scripts. sharded says whether channels have slots.
func NewScripts(m *Metrics, sharded bool) Scripts {
	var all []*Script
	load := func(name string, before ...string) *Script {
		text := Lua(append(slices.Clip(before), name)...)
		if sharded {
			text = strings.ReplaceAll(text, publishing, shardedPublishing)
		}
		sc := New(name, text, m)
		all = append(all, sc)
		return sc
	}
	fair := []string{"news", "clock", "advance", "shape", "fence", "plain", "fair"}
	rw := []string{"news", "advance", "shape", "fence", "rw"}
	permits := []string{"news", "clock", "advance", "shape", "fence", "semaphore"}
	s := Scripts{
		Acquire:        load("acquire", "advance", "take"),
		Release:        load("release", "news", "free"),
		Many:           load("many"),
		Force:          load("force", "news", "clock", "advance", "shape", "fence"),
		ReleaseFair:    load("release_fair", fair...),
		ForceFair:      load("force_fair", fair...),
		ReleaseRead:    load("release_read", append(slices.Clip(rw), "read")...),
		ReleaseWrite:   load("release_write", rw...),
		ForceRW:        load("force_rw", append(slices.Clip(rw), "clock")...),
		ReleasePermits: load("release_semaphore", append(slices.Clip(permits), "permits")...),
		ForcePermit:    load("force_semaphore", permits...),
		LimitPermits:   load("limit_semaphore", permits...),
		RemovePermits:  load("remove_semaphore", permits...),
		AdoptPermits:   load("adopt_semaphore", permits...),
		Shorten:        load("shorten", "news", "clock", "advance", "shape", "fence", "rw", "semaphore"),
		AcquireAll:     load("acquire_all", "news", "advance", "shape", "fence"),
		Raise:          load("raise", "news", "clock", "advance", "shape", "fence", "plain", "rw"),
		Renew:          load("renew", "news", "clock", "advance", "shape", "fence", "rw", "semaphore", "prolong"),
		Look:           load("look", "news", "clock", "advance", "shape", "fence", "rw", "semaphore"),
		Holders:        load("holders", rw...),
		Seen:           load("seen", "news", "clock", "advance", "shape", "fence", "rw"),
		Enlist:         load("enlist", fair...),
		LeaveFair:      load("leave_fair", fair...),
		SucceedFair:    load("succeed_fair", fair...),
		LeaveWrite:     load("leave_write", "news"),
		TakeSession:    load("take_session", "session"),
		KeepSession:    load("keep_session", "session"),
		EndSession:     load("end_session", "session"),
		ForceSession:   load("force_session", "session"),
		Declare:        load("declare"),
		Overlaps:       load("overlaps", "clock", "shape"),
	}
	s.all = all
	return s
}

// Texts are the texts of all scripts, by their SHA-1.
func (s Scripts) Texts() map[string]string {
	texts := make(map[string]string, len(s.all))
	for _, sc := range s.all {
		texts[sc.SHA] = sc.Text
	}
	return texts
}

// Call is one call of a script.
type Call struct {
	*Script
	Keys  int
	Words []any  // as they are sent: a head, which Command fills in, the keys, and the arguments
	Cost  int    // see cost.go
	From  string // see pipe.Job
	// Grants says that the call may take something.
	Grants bool
}

// headWords is how many words stand before the keys.
const headWords = 3

// Call is a call of the script without keys and arguments, with room for this number of words.
func (sc *Script) Call(words int) Call {
	return Call{Script: sc, Words: make([]any, headWords, headWords+words)}
}

// With is a call of the script with keys and arguments, and its cost.
func (sc *Script) With(keys []string, args ...any) Call {
	words := len(keys) + len(args)
	c := sc.Call(words)
	for _, k := range keys {
		c.Words = append(c.Words, k)
	}
	c.Keys, c.Words, c.Cost = len(keys), append(c.Words, args...), CostOf(words)
	return c
}

// As is the call with a tenant.
func (c Call) As(tenant string) Call {
	c.From = tenant
	return c
}

// Observe notes how long a call took.
func (sc *Script) Observe(took time.Duration) { sc.seconds.Observe(took.Seconds()) }

// Start is Run without waiting: done is called once, later, by a goroutine that it must not block.
func (c Call) Start(p *pipe.Pipeline, done func(*redis.Cmd, error)) {
	begun, cmd := time.Now(), c.Command(context.Background())
	told := func(err error) {
		c.Observe(time.Since(begun))
		done(cmd, err)
	}
	j := c.job(cmd)
	j.Done, j.Queued = told, begun
	if err := p.Put(j); err != nil {
		go told(err)
	}
}

// Run executes the script once and returns the command with its answer. If ctx ends first, the caller must not look at
// the command.
func (c Call) Run(ctx context.Context, p *pipe.Pipeline) (*redis.Cmd, error) {
	begun, cmd := time.Now(), c.Command(ctx)
	err := p.Do(ctx, c.job(cmd))
	c.Observe(time.Since(begun))
	return cmd, err
}

func (c Call) job(cmd *redis.Cmd) pipe.Job {
	return pipe.Job{Cmd: cmd, Cost: c.Cost, From: c.From, Grants: c.Grants}
}

// Command is the call as it is sent. It shares the words of the Call, so there may be only one Command of a Call.
func (c Call) Command(ctx context.Context) *redis.Cmd {
	c.Words[0], c.Words[1], c.Words[2] = pipe.EvalSHA, &c.SHA, c.Keys
	return redis.NewCmd(ctx, c.Words...)
}
