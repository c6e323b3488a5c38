package redlock

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// The safety test: clients of several replicas, with clocks that are hours apart, take names over five members that do everything
// members can do wrong. A judge knows who may believe to hold what.

var (
	storms    = flag.Int("redlock.storms", 0, "how many storms there are; 0 for some")
	stormSeed = flag.Uint64("redlock.seed", 0, "the seed of the first storm; 0 for another one each time")
)

const (
	longestLease = 3 * time.Second
	runs         = 2 * time.Minute // of one seed
	clients      = 6
)

// judge finds out whether two hold a name at once, and whether fences rise.
type judge struct {
	mu      sync.Mutex // guards the fields below
	beliefs map[string]map[lock.Owner]belief
	fences  map[string]lock.Fence
	wrong   []string
	grants  int
	renewed int
}

// belief is a hold as its owner knows it.
type belief struct {
	kind  lock.Kind
	until time.Time
}

func (j *judge) fail(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// granted is told when an owner hears that it holds a name until a time. Readers may be told in another order than that in which they
// came, so only the fence of who is alone must be greater than all before.
func (j *judge) granted(c lock.Claim, g lock.Grant, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.grants++
	if !time.Now().Before(until) {
		j.fail("%s was told that it holds %s when that was over", c.Owner, c.Name)
	}
	if last := j.fences[c.Name]; g.Fence <= last && c.Kind != lock.Read {
		j.fail("fence %d of %s after %d", g.Fence, c.Name, last)
	}
	j.fences[c.Name] = max(j.fences[c.Name], g.Fence)
	j.believe(c, until)
}

// believe takes note of a hold, and looks who else has the name.
func (j *judge) believe(c lock.Claim, until time.Time) {
	now := time.Now()
	for o, h := range j.beliefs[c.Name] {
		left := h.until.Sub(now)
		if o != c.Owner && left > 0 && now.Before(until) && (c.Kind != lock.Read || h.kind != lock.Read) {
			j.fail("%s holds %s as %v, and %s does as %v for %v more", c.Owner, c.Name, c.Kind, o, h.kind, left)
		}
	}
	if j.beliefs[c.Name] == nil {
		j.beliefs[c.Name] = map[lock.Owner]belief{}
	}
	j.beliefs[c.Name][c.Owner] = belief{c.Kind, until}
}

// prolonged is told when an owner hears that it holds a name for longer.
func (j *judge) prolonged(c lock.Claim, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.renewed++
	j.believe(c, until)
}

// ended is told before an owner gives a name back.
func (j *judge) ended(c lock.Claim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.beliefs[c.Name], c.Owner)
}

// storm is what goes on in a bubble.
type storm struct {
	*world
	judge
	rand  *rand.Rand
	cfg   Config
	calm  bool // members do nothing wrong any more
	owner int

	lock   sync.Mutex // guards the field below, rand, calm and owner
	stores []*Store
}

func (s *storm) intN(n int) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.rand.IntN(n)
}

func (s *storm) duration(most time.Duration) time.Duration {
	return time.Duration(s.intN(int(most) + 1))
}

// fate is what a member does to one call.
func (s *storm) fate(string) fate {
	s.lock.Lock()
	calm := s.calm
	s.lock.Unlock()
	quick := fate{before: s.duration(5 * time.Millisecond), after: s.duration(5 * time.Millisecond)}
	if calm {
		return quick
	}
	switch n := s.intN(100); {
	case n < 80:
		return quick
	case n < 88:
		return fate{before: s.duration(450 * time.Millisecond), after: s.duration(450 * time.Millisecond)}
	case n < 91:
		return fate{noReply: true, before: s.duration(50 * time.Millisecond)}
	case n < 94:
		return fate{noReply: true, before: s.duration(4 * time.Second)}
	case n < 97:
		return silent
	default:
		return down
	}
}

// trouble has members go away and come back, with and without their data, and replicas be restarted.
func (s *storm) trouble(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, s.duration(2*time.Second))
		n := s.nodes[s.intN(len(s.nodes))]
		switch s.intN(4) {
		case 0:
			n.restart()
		case 1:
			n.becomes(down)
		case 2:
			n.becomes(silent)
		default:
			s.lock.Lock()
			i := s.rand.IntN(len(s.stores))
			s.lock.Unlock()
			fresh := s.replica()
			s.lock.Lock()
			s.stores[i] = fresh
			s.lock.Unlock()
		}
		pause(ctx, s.duration(2*time.Second))
		n.choose(s.fate)
	}
}

// replica is a new one with a clock that is up to two hours wrong.
func (s *storm) replica() *Store {
	var all []lock.Store
	for _, n := range s.nodes {
		all = append(all, hasty{n})
	}
	store, err := New(s.cfg, all, zap.NewNop(), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = store.Close() })
	if hours := s.intN(4); hours < 3 {
		store.hours(hours)
	}
	return store
}

// hasty is a member whose clock is 1 % fast.
type hasty struct{ *node }

func sooner(ttl time.Duration) time.Duration { return ttl * 100 / 101 }

func (h hasty) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	c.TTL = sooner(c.TTL)
	h.node.StartAcquire(c, done)
}

func (h hasty) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	c.TTL = sooner(c.TTL)
	return h.node.Acquire(ctx, c)
}

func (h hasty) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	mine := slices.Clone(cs)
	for i := range mine {
		mine[i].TTL = sooner(mine[i].TTL)
	}
	return h.node.AcquireAll(ctx, mine)
}

func (h hasty) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	mine := make([]lock.Renewal, len(rs))
	for i, r := range rs {
		r.TTL = sooner(r.TTL)
		mine[i] = r
	}
	h.node.Renew(ctx, mine, done)
}

// client takes names until ctx ends. It keeps some to the end of their lease and beyond.
func (s *storm) client(ctx context.Context) {
	for ctx.Err() == nil {
		s.lock.Lock()
		s.owner++
		c := claimOf("n", lock.Owner(fmt.Sprint("o", s.owner)))
		store := s.stores[s.rand.IntN(len(s.stores))]
		s.lock.Unlock()
		c.TTL = []time.Duration{700 * time.Millisecond, longestLease}[s.intN(2)]
		cs := []lock.Claim{c}
		switch n := s.intN(10); {
		case n < 3:
			cs[0].Name, cs[0].Kind = "rw", []lock.Kind{lock.Read, lock.Read, lock.Write}[n]
		case n == 3:
			other := c
			other.Name, other.Kind = "rw", lock.Write
			cs = append(cs, other)
		}
		if gs, until, ok := s.get(ctx, store, cs); ok {
			s.hold(ctx, store, cs, gs, until)
		}
		pause(ctx, s.duration(50*time.Millisecond))
	}
}

// get asks for names a few times. What may be left is given back, as a broker does.
func (s *storm) get(ctx context.Context, store *Store, cs []lock.Claim) (gs []lock.Grant, until time.Time, ok bool) {
	unsure := false
	for range 1 + s.intN(10) {
		until = time.Now().Add(cs[0].TTL)
		gs, err := ask(store, cs)
		if err == nil && (time.Now().Before(until) || s.cfg.bugs.trustLate) {
			for i, c := range cs {
				s.granted(c, gs[i], until)
			}
			return gs, until, true
		}
		unsure = unsure || err == nil || errors.Is(err, lock.ErrOutcomeUnknown)
		next := s.duration(100 * time.Millisecond)
		if held, is := errors.AsType[*lock.HeldError](err); is {
			next = min(held.RetryAfter, 300*time.Millisecond)
		}
		pause(ctx, next)
	}
	for _, c := range cs {
		if unsure {
			s.giveBack(store, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner})
		}
	}
	return nil, until, false
}

func ask(store *Store, cs []lock.Claim) ([]lock.Grant, error) {
	if len(cs) > 1 {
		return store.AcquireAll(context.Background(), cs)
	}
	g, err := store.Acquire(context.Background(), cs[0])
	return []lock.Grant{g}, err
}

// giveBack releases until it is sure.
func (s *storm) giveBack(store *Store, r lock.Return) {
	for range 200 {
		if _, err := store.Release(context.Background(), r); !lock.Retriable(err) {
			return
		}
		time.Sleep(s.duration(500 * time.Millisecond))
	}
}

// hold keeps names for a while.
func (s *storm) hold(ctx context.Context, store *Store, cs []lock.Claim, gs []lock.Grant, until time.Time) {
	ends := make([]time.Time, len(cs))
	for i := range ends {
		ends[i] = until
	}
	for s.intN(3) > 0 {
		pause(ctx, s.duration(cs[0].TTL/2))
		rs := make([]lock.Renewal, len(cs))
		for i, c := range cs {
			rs[i] = lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: gs[i].Fence, TTL: c.TTL}
		}
		start := time.Now()
		store.Renew(context.Background(), rs, func(i int, err error) {
			if err == nil && time.Now().Before(ends[i]) && start.Add(cs[i].TTL).After(ends[i]) {
				ends[i] = start.Add(cs[i].TTL)
				s.prolonged(cs[i], ends[i])
			}
		})
	}
	keep := s.intN(3) == 0
	for i, c := range cs {
		if keep { // it does not give it back
			pause(ctx, time.Until(ends[i]))
		}
		s.ended(c)
		if !keep {
			s.giveBack(store, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: gs[i].Fence})
		}
	}
}

// weather runs a storm, and says what went wrong.
func weather(t *testing.T, seed uint64, cfg Config) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &storm{world: &world{T: t}, rand: rand.New(rand.NewPCG(seed, seed)), cfg: cfg}
		s.beliefs, s.judge.fences = map[string]map[lock.Owner]belief{}, map[string]lock.Fence{}
		for range 5 {
			n := newNode()
			n.choose(s.fate)
			s.nodes = append(s.nodes, n)
		}
		for range 3 {
			s.stores = append(s.stores, s.replica())
		}
		ctx, cancel := context.WithTimeout(t.Context(), runs)
		defer cancel()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() { s.client(ctx) })
		}
		wg.Go(func() { s.trouble(ctx) })
		wg.Wait()
		s.aftermath()
		time.Sleep(lastCalls)
		wrong = s.wrong
		t.Logf("seed %d: %d grants, %d renewals", seed, s.grants, s.renewed)
	})
	return wrong
}

// aftermath checks that when all is well again the name can be had.
func (s *storm) aftermath() {
	s.lock.Lock()
	s.calm = true
	s.lock.Unlock()
	for _, n := range s.nodes {
		n.choose(s.fate)
	}
	begun := time.Now()
	for {
		write := claimOf("rw", "last")
		write.Kind = lock.Write
		if _, err := s.stores[0].AcquireAll(context.Background(), []lock.Claim{claimOf("n", "last"), write}); err == nil {
			break
		}
		if time.Since(begun) > s.cfg.Quarantine+2*longestLease {
			s.fail("nobody gets the names %v after the faults stopped", time.Since(begun))
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// quarantine is as long as any lease at a member lasts.
const quarantine = 2 * longestLease

func TestNoTwoHoldersWhateverMembersDo(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 4
	}
	seeds = cmp.Or(*storms, seeds)
	base := cmp.Or(*stormSeed, rand.Uint64())
	for i := range seeds {
		seed := base + uint64(i) //nolint:gosec // small
		if wrong := weather(t, seed, Config{Quarantine: quarantine}); len(wrong) > 0 {
			t.Fatalf("seed %d: %d things went wrong; first: %q", seed, len(wrong), wrong[:min(5, len(wrong))])
		}
	}
}

// A silent member that took a name for an attempt that failed gives it back, long before the lease ends.
func silence(t *testing.T, _ uint64, cfg Config) (wrong []string) {
	inWorld(t, 5, cfg, func(w *world) {
		for i := range 3 {
			w.puts(i, claimOf("n", "other"))
		}
		w.nodes[3].choose(onceNoReply("acquire"))
		_, _ = w.Store.Acquire(w.Context(), claimOf("n", "o"))
		time.Sleep(3 * time.Second)
		if o := w.nodes[3].has("n"); o != "" {
			wrong = append(wrong, fmt.Sprintf("%s has it yet", o))
		}
	})
	return wrong
}

// Each of the mistakes that these tests are there for is found by one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	type test func(t *testing.T, seed uint64, cfg Config) (wrong []string)
	for _, c := range []struct {
		name  string
		cfg   Config
		found test
	}{
		{"half of the members", Config{Quarantine: quarantine, bugs: bugs{halfIsEnough: true}}, weather},
		{"no look at the time", Config{Quarantine: quarantine, bugs: bugs{trustLate: true}}, weather},
		{"no allowance for drift", Config{Quarantine: quarantine, bugs: bugs{noDrift: true}}, weather},
		{"unknowns are left", Config{Quarantine: quarantine, bugs: bugs{keepUnknown: true}}, silence},
		{"fences as they are", Config{Quarantine: quarantine, bugs: bugs{fencesAsTheyAre: true}}, weather},
		{"members vote when empty", Config{}, weather},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(100) {
				if wrong := c.found(t, seed, c.cfg); len(wrong) > 0 {
					t.Logf("found with seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

func TestASilentMemberGivesBack(t *testing.T) {
	if wrong := silence(t, 0, Config{}); len(wrong) > 0 {
		t.Error(wrong)
	}
}
