package watch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

// maxGlances is how many names are looked at in one batch.
const maxGlances = 100

// errNotSeen: the store was closed before it looked.
var errNotSeen = fmt.Errorf("%w: %w", lock.ErrUnavailable, pipe.ErrClosed)

// scout looks at watched names, and learns from Redis when one of them changes.
//
// It has one connection of its own, for which Redis remembers what it read (CLIENT TRACKING). The next change of such a
// key is told once, to the connection of the hub: this costs those who take locks nothing but the message. Where
// there is no tracking, as behind some proxies, a Sight says so and who watches looks more often.
type scout struct {
	*script.Caller

	hub    *hub.Hub
	dialer pipe.Dialer
	client *redis.Client // of the goroutine; nil while there is no connection
	wake   chan struct{} // size 1
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	closed    bool
	lookups   []*lookup
	followers map[string]map[*watcher]struct{} // by each key whose change concerns them
	stop      func()                           // listening to what changed; nil while nobody follows
}

// lookup is a name to be looked at.
type lookup struct {
	n    string
	cmd  *redis.Cmd
	err  error      // of the lookup, not of the command
	done chan error // size 1
}

func newScout(cl *script.Caller, h *hub.Hub, d pipe.Dialer) *scout {
	ctx, cancel := context.WithCancel(context.Background())
	sc := &scout{
		Caller: cl, hub: h, dialer: d, wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel,
		followers: make(map[string]map[*watcher]struct{}),
	}
	sc.dialer.Texts = []string{cl.Scripts.Sight.Text}
	sc.wg.Go(sc.run)
	return sc
}

func (sc *scout) close() {
	sc.mu.Lock()
	sc.closed = true
	sc.mu.Unlock()
	sc.cancel()
	sc.wg.Wait()
}

// follow has a watcher of N told when something about it changes.
func (sc *scout) follow(n string, w *watcher) (stop func()) {
	keys := []string{n, layout.PermitsOut(n)}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, key := range keys {
		if sc.followers[key] == nil {
			sc.followers[key] = make(map[*watcher]struct{})
		}
		sc.followers[key][w] = struct{}{}
	}
	if sc.stop == nil {
		sc.stop = sc.hub.Listen(hub.Invalid, sc.invalid)
	}
	return func() { sc.unfollow(w, keys) }
}

func (sc *scout) unfollow(w *watcher, keys []string) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, key := range keys {
		delete(sc.followers[key], w)
		if len(sc.followers[key]) == 0 {
			delete(sc.followers, key)
		}
	}
	if len(sc.followers) == 0 && sc.stop != nil {
		sc.stop()
		sc.stop = nil
	}
}

// invalid passes on what Redis tells: which keys changed, or that all may have.
func (sc *scout) invalid(h hub.Heard) {
	switch {
	case h.Live:
		sc.tellAll(lock.NoticeChanged)
	case h.Deaf:
	case len(h.Keys) == 0:
		sc.tellAll(lock.NoticeFlushed)
	default:
		sc.tell(h.Keys, lock.NoticeChanged)
	}
}

func (sc *scout) tell(keys []string, what lock.What) {
	for _, w := range sc.following(keys...) {
		w.notify(lock.Notice{What: what})
	}
}

// following are those whom a change of some keys concerns.
func (sc *scout) following(keys ...string) (ws []*watcher) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, key := range keys {
		ws = slices.AppendSeq(ws, maps.Keys(sc.followers[key]))
	}
	return ws
}

func (sc *scout) tellAll(what lock.What) {
	sc.mu.Lock()
	keys := slices.Collect(maps.Keys(sc.followers))
	sc.mu.Unlock()
	sc.tell(keys, what)
}

// See implements lock.Store.
func (l *Lookout) See(ctx context.Context, name string) (lock.Sight, error) {
	st, err := l.scout.see(ctx, l.Prefix+name)
	if err != nil {
		return lock.Sight{}, fmt.Errorf("look who holds %q: %w", name, err)
	}
	return st, nil
}

func (sc *scout) see(ctx context.Context, n string) (lock.Sight, error) {
	if err := script.Begin(ctx, lock.Exclusive); err != nil {
		return lock.Sight{}, err
	}
	keys := []string{n, layout.Token(n), layout.PermitsOut(n)}
	sight := sc.Scripts.Sight
	g := &lookup{n: n, done: make(chan error, 1)}
	g.cmd = sight.With(keys, layout.HoldBase(n), lock.MaxSeen).Command(sc.ctx, "evalsha", &sight.SHA)
	sc.mu.Lock()
	if sc.closed {
		sc.mu.Unlock()
		return lock.Sight{}, errNotSeen
	}
	sc.lookups = append(sc.lookups, g)
	sc.mu.Unlock()
	select {
	case sc.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-g.done:
		if err != nil && !errors.Is(err, errUntracked) {
			return lock.Sight{}, sc.Failed(err)
		}
		a, bad := sc.Answered(g.cmd, nil)
		if bad != nil {
			return lock.Sight{}, bad
		}
		st := sightOf(&a)
		st.Tracked = err == nil
		return st, a.Err
	case <-sc.ctx.Done():
		return lock.Sight{}, errNotSeen
	case <-ctx.Done():
		return lock.Sight{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
}

// errUntracked: the name was looked at, but its changes are not told.
var errUntracked = errors.New("redis does not track what is read")

func (sc *scout) run() {
	defer sc.hangUp()
	for {
		if some := sc.take(maxGlances); len(some) > 0 {
			sc.lookUp(some)
			continue
		}
		select {
		case <-sc.wake:
		case <-sc.ctx.Done():
			sc.fail(pipe.ErrClosed)
			return
		}
	}
}

// take takes names that are to be looked at.
func (sc *scout) take(most int) []*lookup {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	some := sc.lookups[:min(len(sc.lookups), most)]
	sc.lookups = sc.lookups[len(some):]
	return some
}

// fail tells an error to all who wait.
func (sc *scout) fail(err error) {
	for _, g := range sc.take(math.MaxInt) {
		g.done <- err
	}
}

// connect makes the connection if there is none.
func (sc *scout) connect() (err error) {
	if sc.client != nil {
		return nil
	}
	if sc.client, err = sc.dialer.Dial(sc.ctx); err == nil {
		sc.tellAll(lock.NoticeChanged) // what the last connection read is not tracked any more
	}
	return err
}

func (sc *scout) hangUp() {
	if sc.client != nil {
		_ = sc.client.Close() // it can only be closed already
		sc.client = nil
	}
}

// lookUp looks at some names in one round trip, once more if the connection was lost before that.
func (sc *scout) lookUp(some []*lookup) {
	err := pipe.ErrNotConnected
	for range 2 {
		if err = sc.connect(); err != nil {
			sc.fail(err) // the others would wait as long, for nothing
			break
		}
		if err = sc.look(some); !errors.Is(err, pipe.ErrNotConnected) {
			return
		}
		sc.hangUp()
	}
	for _, g := range some {
		g.done <- err
	}
}

// look is lookUp on the connection that there is. Only with pipe.ErrNotConnected nobody was told anything.
func (sc *scout) look(some []*lookup) error {
	ctx, cancel := sc.Bounded(sc.ctx)
	defer cancel()
	forgotten, err := sc.exec(ctx, some)
	if len(forgotten) == 0 {
		return err
	}
	again := forgotten
	if err := sc.client.ScriptLoad(ctx, sc.Scripts.Sight.Text).Err(); err == nil {
		if again, err = sc.exec(ctx, forgotten); err != nil {
			again = forgotten
		}
	}
	for _, g := range again {
		g.done <- cmp.Or(g.cmd.Err(), pipe.ErrNotConnected)
	}
	return nil
}

// exec sends a batch and returns what Redis knew no script for. Tracking is asked for each time: for another connection
// than the last time, or to be told on another one.
func (sc *scout) exec(ctx context.Context, some []*lookup) (forgotten []*lookup, err error) {
	batch := sc.client.Pipeline()
	hearer := strconv.FormatInt(sc.hub.ID(), 10)
	tracking := batch.Do(ctx, "client", "tracking", "on", "redirect", hearer)
	for _, g := range some {
		_ = batch.Process(ctx, g.cmd)
	}
	_, failure := batch.Exec(ctx)
	if errors.Is(failure, pipe.ErrNotConnected) {
		for _, g := range some {
			g.cmd.SetErr(nil)
		}
		return nil, failure
	}
	var seen []*lookup
	for _, g := range some {
		err := g.cmd.Err()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			forgotten = append(forgotten, g)
			continue
		case err == nil && g.cmd.Val() == nil: // no answer and no error
			err = failure
		case err == nil && tracking.Err() != nil:
			err = errUntracked
		}
		g.err = err
		seen = append(seen, g)
	}
	sc.conclude(seen)
	return forgotten, nil
}

// conclude answers for names that were looked at, when all that Redis said before is heard.
func (sc *scout) conclude(seen []*lookup) {
	then := func() {
		for _, g := range seen {
			for _, w := range sc.following(g.n) {
				w.tellBare()
			}
			g.done <- g.err
		}
	}
	sc.mu.Lock()
	followed := sc.stop != nil
	sc.mu.Unlock()
	if followed && len(seen) > 0 {
		sc.hub.Passed(then)
	} else {
		then()
	}
}

// sightOf reads an answer of script/sight.lua.
func sightOf(a *script.Answer) lock.Sight {
	var st lock.Sight
	st.Fence = fenceOf(a.Text(0))
	st.Many = a.Int(1) == 1
	permits := make(map[string]int) // where in Holds those of lockd's owners are
	for i := 2; i+3 < len(a.List); i += 4 {
		kind, who, left := a.Text(i), a.Text(i+1), script.TTL(a.Int(i+3))
		if kind == "permit" {
			seePermit(&st, permits, who, left)
			continue
		}
		h := lock.SeenHold{ID: kind + " " + who, Fence: fenceOf(a.Text(i + 2)), TTL: left}
		h.Foreign = !strings.Contains(who, "#") && !strings.HasSuffix(who, ":unary")
		if h.Foreign { // what there is of a fence is not its own
			h.Fence = 0
		}
		st.Holds = append(st.Holds, h)
	}
	return st
}

// permitWord is what the ids of permits begin with in a Sight.
const permitWord = "permit "

// seePermit adds a permit to a Sight. Those of an owner of lockd are one hold, which ends with the last of them.
func seePermit(st *lock.Sight, permits map[string]int, id string, left time.Duration) {
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

// ourPermit says whether an id is one of lockd's. Their numbers are small. Redisson's ids are random: one in 65,000 is
// taken for a hold of lockd that is not released with its name, so its end is told by what is seen.
func ourPermit(id string) bool {
	return len(id) == permitStem+4 && id[permitStem] == 0 && id[permitStem+1] == 0
}

func fenceOf(text string) lock.Fence {
	f, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return lock.Fence(f)
}
