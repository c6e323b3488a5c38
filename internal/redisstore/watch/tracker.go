package watch

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

// errNotSeen: the store was closed before it looked.
var errNotSeen = fmt.Errorf("%w: %w", lock.ErrUnavailable, pipe.ErrClosed)

// tracker looks at watched names, and learns from Redis when one of them changes.
//
// It has one connection of its own, and Redis remembers which keys that connection read (CLIENT TRACKING). Redis tells
// the next change of each such key once, to the connection of the hub. So watching costs those who take locks nothing
// but the message. Where there is no tracking, as behind some proxies, a Seen says so, and watchers look more often.
type tracker struct {
	*script.Caller

	hub    *hub.Hub
	dialer pipe.Dialer
	made   atomic.Int64    // how many connections of its own were made
	ctx    context.Context // ends with the tracker
	cancel context.CancelFunc

	mu        sync.Mutex                       // guards the fields below
	way       *pipe.Pipeline                   // over its one connection; nil until somebody looks
	followers map[string]map[follower]struct{} // by the keys whose changes concern them
	stop      func()                           // ends listening to changes; nil while nobody follows
}

// follower is a watcher, and what a change of a key is to it.
type follower struct {
	*watcher
	what lock.What
}

func newTracker(cl *script.Caller, h *hub.Hub, d pipe.Dialer) *tracker {
	t := &tracker{Caller: cl, hub: h, dialer: d, followers: make(map[string]map[follower]struct{})}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.dialer.Meet = func(context.Context, *redis.Client) error {
		t.made.Add(1)
		t.tellAll(lock.NoticeChanged) // what the last connection read is not tracked any more
		return nil
	}
	return t
}

func (t *tracker) close() {
	t.cancel()
	t.mu.Lock()
	way := t.way
	t.mu.Unlock()
	if way != nil {
		way.Close()
	}
}

// wayThere is the pipeline of all looks. It is nil when the tracker is closed.
func (t *tracker) wayThere() *pipe.Pipeline {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.way == nil && t.ctx.Err() == nil {
		t.way = pipe.New(t.dialer, pipe.Config{Timeout: t.OpTimeout, Most: pipe.MaxBatch})
	}
	return t.way
}

// follow has a watcher of n told when a key of n changes. Each grant of lockd changes the fence key; a renewal only
// touches the keys of holds.
func (t *tracker) follow(n string, w *watcher) (stop func()) {
	renewed, granted := follower{w, lock.NoticeTouched}, follower{w, lock.NoticeChanged}
	keys := map[string]follower{n: renewed, layout.PermitsOut(n): renewed, layout.Token(n): granted}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, f := range keys {
		if t.followers[key] == nil {
			t.followers[key] = make(map[follower]struct{})
		}
		t.followers[key][f] = struct{}{}
	}
	if t.stop == nil {
		t.stop = t.hub.Listen(hub.Invalid, t.invalid)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for key, f := range keys {
			delete(t.followers[key], f)
			if len(t.followers[key]) == 0 {
				delete(t.followers, key)
			}
		}
		if len(t.followers) == 0 && t.stop != nil {
			t.stop()
			t.stop = nil
		}
	}
}

// invalid passes on what Redis tells: which keys changed, or that all may have changed.
func (t *tracker) invalid(h hub.Heard) {
	switch {
	case h.Live:
		t.tellAll(lock.NoticeChanged)
	case h.Deaf:
	case len(h.Keys) == 0:
		t.tellAll(lock.NoticeFlushed)
	default:
		t.tell(h.Keys, 0)
	}
}

// tell tells the followers of some keys what happened, or with 0 what a change of the key is to each of them.
func (t *tracker) tell(keys []string, what lock.What) {
	for _, f := range t.following(keys...) {
		f.notify(lock.Notice{What: cmp.Or(what, f.what)})
	}
}

// following are the followers of some keys.
func (t *tracker) following(keys ...string) (fs []follower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		fs = slices.AppendSeq(fs, maps.Keys(t.followers[key]))
	}
	return fs
}

func (t *tracker) tellAll(what lock.What) {
	t.mu.Lock()
	keys := slices.Collect(maps.Keys(t.followers))
	t.mu.Unlock()
	t.tell(keys, what)
}

// See implements lock.Store.
func (l *Lookout) See(ctx context.Context, name string) (lock.Seen, error) {
	st, err := l.tracker.see(ctx, l.Prefix+name)
	if err != nil {
		return lock.Seen{}, fmt.Errorf("look who holds %q: %w", name, err)
	}
	return st, nil
}

func (t *tracker) see(ctx context.Context, n string) (lock.Seen, error) {
	if err := lock.Begin(ctx, lock.Exclusive); err != nil {
		return lock.Seen{}, err
	}
	way := t.wayThere()
	if way == nil {
		return lock.Seen{}, errNotSeen
	}
	var tracked atomic.Int64 // the number of the connection whose reads are tracked
	// It is sent each time, because this connection or that of the hub may be a new one.
	track := redis.NewCmd(ctx, "client", "tracking", "on", "redirect", strconv.FormatInt(t.hub.ID(), 10))
	err := way.Put(pipe.Job{Cmd: track, Queued: time.Now(), Done: func(err error) {
		if err == nil {
			tracked.Store(t.made.Load())
		}
	}})
	if err != nil {
		return lock.Seen{}, t.Failed(err)
	}
	look := t.Scripts.Seen.With([]string{n, layout.Token(n), layout.PermitsOut(n)}, layout.HoldBase(n), lock.MaxSeen)
	a, err := t.Answered(look.Run(ctx, way))
	if err != nil {
		return lock.Seen{}, err
	}
	if err := t.hearAll(ctx, n); err != nil {
		return lock.Seen{}, err
	}
	st := seenOf(&a)
	st.Tracked = tracked.Load() == t.made.Load()
	return st, a.Err
}

// hearAll returns when the watchers of n have heard all that Redis sent before.
func (t *tracker) hearAll(ctx context.Context, n string) error {
	watchers := t.following(n)
	if len(watchers) == 0 {
		return nil
	}
	heard := make(chan struct{})
	t.hub.Passed(func() {
		for _, w := range watchers {
			w.tellBare()
		}
		close(heard)
	})
	select {
	case <-heard:
		return nil
	case <-t.ctx.Done():
		return errNotSeen
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
}

// seenOf reads an answer of script/seen.lua.
func seenOf(a *script.Answer) lock.Seen {
	st := lock.Seen{Fence: a.Last(0), Many: a.Int(1) == 1}
	permits := make(map[string]int) // the index in Holds, by the stem of the ids of an owner of lockd
	for i := 2; i+3 < len(a.List); i += 4 {
		kind, who, left := a.Text(i), a.Text(i+1), script.TTL(a.Int(i+3))
		if kind == "permit" {
			seePermit(&st, permits, who, left)
			continue
		}
		h := lock.SeenHold{ID: kind + " " + who, Fence: a.Last(i + 2), TTL: left}
		h.Foreign = !strings.Contains(who, "#") && !strings.HasSuffix(who, ":unary")
		if h.Foreign { // the fence, if there is one, is not its own
			h.Fence = 0
		}
		st.Holds = append(st.Holds, h)
	}
	return st
}

// permitWord begins the ids of permits in a Seen.
const permitWord = "permit "

// seePermit adds a permit to a Seen. The permits of an owner of lockd are one hold, which ends with the last of them.
func seePermit(st *lock.Seen, permits map[string]int, id string, left time.Duration) {
	if !ourPermit(id) {
		h := lock.SeenHold{ID: permitWord + hex.EncodeToString([]byte(id)), TTL: left, Foreign: true, Permit: true}
		st.Holds = append(st.Holds, h)
		return
	}
	stem := id[:permitStem]
	at, there := permits[stem]
	if !there {
		permits[stem] = len(st.Holds)
		h := lock.SeenHold{ID: permitWord + hex.EncodeToString([]byte(stem)), TTL: left, Permit: true}
		st.Holds = append(st.Holds, h)
		return
	}
	h := &st.Holds[at]
	if left == lock.NoTTL || h.TTL != lock.NoTTL && left > h.TTL {
		h.TTL = left
	}
}

// permitStem is how many bytes of a permit's id name its owner. The rest is its number. See script/semaphore.lua.
const permitStem = 12

// ourPermit says whether an id is one of lockd's, in which the number is small. Redisson's ids are random, and one in
// 65,000 looks like that. No message names that one when it is released, so only a look shows its end.
func ourPermit(id string) bool {
	return len(id) == permitStem+4 && id[permitStem] == 0 && id[permitStem+1] == 0
}
