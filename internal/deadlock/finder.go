package deadlock

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/peers"
)

const (
	// period is how often somebody looks while requests wait, give or take a fifth. Three questions and the store have
	// to fit in beside it within two seconds.
	period = 700 * time.Millisecond
	// answerTime is how long answers are waited for.
	answerTime = 400 * time.Millisecond
	// lookTime bounds a look, and what the store is asked for in it.
	lookTime = 10 * answerTime
	// ripe is how long a request has waited before it is told of. Most have their lock by then.
	ripe = period / 3

	// maxWaits is how many requests one replica tells of, maxNames and nameBytes how many names are asked for at a
	// time, maxHolders how many holds of one name a replica tells of.
	maxWaits   = 2_000
	maxNames   = 4_000
	nameBytes  = 256 << 10
	maxHolders = 128
	// maxFound is how many deadlocks are told of at a time, and maxLooks of how many names the store is asked for them.
	maxFound = 100
	maxLooks = 256

	// fresh is for how long what was found is told again.
	fresh = period / 2
	// lasting is for how long a deadlock is counted that is not found again.
	lasting = 7 * period
)

// Local is what this replica knows.
type Local interface {
	// Waits are the requests whose actors are known and that have waited here for at least since: the most that wait
	// longest, and whether there are more. If actors are given, they are those of these actors alone, with About set.
	Waits(actors []string, since time.Duration, most int) (waits []Wait, more bool)
	// AnyWaits says whether there are such requests.
	AnyWaits(since time.Duration) bool
	// Holds are holds of a name whose actors are known, at most so many.
	Holds(name string, most int) []Hold
	// Fail ends a request that waits in a deadlock, and says whether it waited here.
	Fail(w lock.Owner, because *Error) bool
	// IsWaiting says whether a request waits here.
	IsWaiting(w lock.Owner) bool
}

// Store is what is asked of a lock.Store.
type Store interface {
	lock.Peers
	Look(ctx context.Context, name string) (lock.State, error)
}

// Config is what a Finder works with.
type Config struct {
	ID    string // of this process
	Store Store
	Local Local
	Log   *zap.Logger
}

// Finder looks for deadlocks.
type Finder struct {
	cfg   Config
	peers *peers.Peers[Question, Answer]

	look   sync.Mutex // held by the one who looks, guards the fields below. Locked before mu
	last   Found
	lastAt time.Time

	mu            sync.Mutex               // guards the fields below
	heard         time.Time                // when a replica began to look
	known         map[lock.Owner]time.Time // the youngest of each deadlock, if it waits here, and when that was found last
	found, failed uint64
}

// New is a Finder that answers other replicas until Leave. Run has it look by itself.
func New(cfg Config) *Finder {
	f := &Finder{cfg: cfg, known: make(map[lock.Owner]time.Time)}
	f.peers = peers.Join(cfg.Store, "deadlocks", cfg.ID, f.asked, func(err error) {
		cfg.Log.Debug("another replica that looks for deadlocks was not answered", zap.Error(err))
	})
	f.peers.Within = answerTime
	return f
}

// Leave answers no more questions.
func (f *Finder) Leave() { f.peers.Leave() }

// Run looks for deadlocks until ctx ends, while requests wait here whose actors are known, unless another replica does.
func (f *Finder) Run(ctx context.Context) {
	for {
		if lock.Pause(ctx, period*4/5+rand.N(period*2/5)); ctx.Err() != nil { //nolint:gosec // not a secret
			return
		}
		f.mu.Lock()
		heard := f.heard
		f.mu.Unlock()
		if time.Since(heard) < period*4/5 || !f.cfg.Local.AnyWaits(ripe) {
			continue
		}
		if _, err := f.Look(ctx); err != nil {
			f.cfg.Log.Debug("no deadlocks could be looked for", zap.Error(err))
		}
	}
}

// Found is what a look found.
type Found struct {
	Deadlocks []Deadlock
	// Answered is how many of the replicas that were Asked answered, this one included.
	Answered, Asked int
}

// Look looks for deadlocks, and tells all replicas what it found. If it looked just now, it returns what it found then.
func (f *Finder) Look(ctx context.Context) (Found, error) {
	f.look.Lock()
	defer f.look.Unlock()
	if !f.lastAt.IsZero() && time.Since(f.lastAt) < fresh {
		return f.last, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, errors.New("looking for deadlocks took too long"))
	defer cancel()
	found, err := f.search(ctx)
	if err != nil {
		return Found{}, err
	}
	f.last, f.lastAt = found, time.Now()
	if len(found.Deadlocks) > 0 {
		_, _, err = f.peers.Ask(ctx, Question{Found: found.Deadlocks})
	}
	return found, err
}

func (f *Finder) search(ctx context.Context) (found Found, err error) {
	first, err := f.ask(ctx, &found, Question{Waits: true})
	if err != nil {
		return found, err
	}
	waits, _ := ordered(first)
	names := namesOf(waits)
	if len(names) == 0 {
		return found, nil
	}
	second, err := f.ask(ctx, &found, Question{Names: names})
	if err != nil {
		return found, err
	}
	_, holds := ordered(second)
	before := facts{waits: waits, holds: holds}
	s := before.suspects(before.bounded(before.graph().circles()))
	if len(s.actors) == 0 {
		return found, nil
	}
	return found, f.confirm(ctx, s, &found)
}

// bounded are the first circles, so many that the store can be asked for their names.
func (f facts) bounded(cs []circle) []circle {
	names := make(map[string]bool)
	for i, c := range cs {
		for _, at := range c.requests {
			for _, want := range f.waits[at].Wants {
				names[want.Name] = true
			}
		}
		if i == maxFound || i > 0 && len(names) > maxLooks {
			return cs[:i]
		}
	}
	return cs
}

// confirm looks once more for what looks like a deadlock.
func (f *Finder) confirm(ctx context.Context, s suspect, found *Found) error {
	limits, err := f.limits(ctx, s)
	if err != nil {
		return err
	}
	again, err := f.ask(ctx, found, Question{Waits: true, Actors: s.actors, Names: s.names})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(again, func(a Answer) bool { return a.Cut }) {
		return nil // one of the requests that are missing may be granted
	}
	waits, holds := ordered(again)
	after := s.confirm(waits, holds, limits)
	for _, c := range after.graph().circles() {
		found.Deadlocks = append(found.Deadlocks, after.describe(c))
	}
	return nil
}

// limits reads the limits of semaphores from the store.
func (f *Finder) limits(ctx context.Context, s suspect) (map[string]uint32, error) {
	limits := make(map[string]uint32)
	for _, name := range s.names {
		if s.kinds[name] != lock.Semaphore {
			continue
		}
		if len(limits) == maxLooks { // the others are taken for free
			break
		}
		st, err := f.cfg.Store.Look(ctx, name)
		if err != nil {
			return nil, err
		}
		limits[name] = st.Limit
	}
	return limits, nil
}

// ask asks all replicas, and counts how many answered at worst.
func (f *Finder) ask(ctx context.Context, found *Found, q Question) ([]Answer, error) {
	answers, asked, err := f.peers.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if found.Asked == 0 || len(answers) < found.Answered {
		found.Answered = len(answers)
	}
	found.Asked = max(found.Asked, asked)
	return answers, nil
}

// namesOf are the names that are waited for.
func namesOf(waits []Wait) (names []string) {
	seen, bytes := make(map[string]bool), 0
	for _, w := range waits {
		for _, want := range w.Wants {
			if seen[want.Name] {
				continue
			}
			if bytes += len(want.Name); bytes > nameBytes || len(names) == maxNames {
				return names
			}
			seen[want.Name] = true
			names = append(names, want.Name)
		}
	}
	return names
}

// asked answers a question of another replica, or of this one.
func (f *Finder) asked(q Question) (a Answer) {
	switch {
	case q.Waits && len(q.Actors) == 0:
		f.mu.Lock()
		f.heard = time.Now()
		f.mu.Unlock()
		a.Waits, _ = f.cfg.Local.Waits(nil, ripe, maxWaits)
	case q.Waits:
		a.Waits, a.Cut = f.cfg.Local.Waits(q.Actors, 0, maxWaits)
	}
	for _, name := range q.Names {
		a.Holds = append(a.Holds, f.cfg.Local.Holds(name, maxHolders)...)
	}
	for _, d := range q.Found {
		if len(d.Members) > 0 {
			f.note(d)
		}
	}
	return a
}

// note counts a deadlock if that is up to this replica, and ends a request if it is here.
func (f *Finder) note(d Deadlock) {
	youngest := d.Members[0].Owner
	waits := f.cfg.Local.IsWaiting(youngest)
	failed := d.Victim != "" && f.cfg.Local.Fail(d.Victim, &Error{d})
	f.mu.Lock()
	defer f.mu.Unlock()
	if failed {
		f.failed++
	}
	f.forgetLocked()
	if _, known := f.known[youngest]; waits && !known {
		f.found++
		f.cfg.Log.Warn("requests wait for each other", zap.Array(observe.KeyDeadlock, d))
	}
	if waits {
		f.known[youngest] = time.Now()
	}
}

// forgetLocked drops the deadlocks that are not found any more.
func (f *Finder) forgetLocked() {
	maps.DeleteFunc(f.known, func(_ lock.Owner, at time.Time) bool { return time.Since(at) > lasting })
}

// Counts are the deadlocks found so far, the requests that were ended because of one, and the deadlocks that last. Each
// deadlock is counted by one replica: that of its youngest request.
func (f *Finder) Counts() (found, failed uint64, lasts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked()
	for w := range f.known {
		if f.cfg.Local.IsWaiting(w) {
			lasts++
		}
	}
	return f.found, f.failed, lasts
}
