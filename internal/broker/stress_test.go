package broker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"math"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watchdog"
)

var stressSeed = flag.Uint64("stress.seed", 0, "the seed of the stress test; 0 takes new ones")

const (
	stressNames   = 7               // what each is, storm.kind tells
	stressLimit   = 3               // of a semaphore
	longestLease  = 6 * time.Second // fixed, or a session's TTL
	afterTheStorm = 4 * longestLease
)

// stressTime is how long a storm lasts, in the bubble.
var stressTime = tier.Pick(time.Minute, 4*time.Minute)

// fewestGrants of a storm show something.
func fewestGrants() int { return int(stressTime / time.Minute * 125) }

// seeds are one for the first tier, and more and a new one for the second.
func seeds(first uint64, more ...uint64) []uint64 {
	if *stressSeed != 0 {
		return []uint64{*stressSeed}
	}
	return tier.Pick([]uint64{first}, append(append([]uint64{first}, more...), mrand.Uint64()))
}

// kind is how a name is locked.
func (s *storm) kind(i int, rng *mrand.Rand) lock.Kind {
	majority := s.books != nil
	switch {
	case i == 5, i == 6 && majority:
		return []lock.Kind{lock.Read, lock.Read, lock.Write}[rng.IntN(3)]
	case i == 4 && !majority:
		return lock.Fair
	case i == 6:
		return lock.Semaphore
	default:
		return lock.Exclusive
	}
}

// item is one of the names, to be locked.
func (s *storm) item(i int, rng *mrand.Rand) request.Item {
	item := request.Item{Name: name(i), Kind: s.kind(i, rng)}
	if item.Kind == lock.Semaphore {
		item.Permits, item.Limit = uint32(1+rng.IntN(2)), stressLimit
	}
	return item
}

// storm is two replicas on one store and those who use them.
type storm struct {
	t        *testing.T
	tick     time.Duration // all pauses are multiples of it
	o        *oracle
	stores   []lock.Store // what each replica has
	faulty   []*chaos     // the store itself, or the members of which each replica has a majority
	books    []*book      // of each replica, in that case
	forgets  []func()     // has a member lose its data
	replicas []*broker.Broker
	regs     []*prometheus.Registry
	over     chan struct{} // closed when clients shall begin nothing new
	wg       sync.WaitGroup
	asked    sync.Map // all sessions, with their clients
}

// TestNobodyIsWrongInAStorm lets many clients do what comes to their mind while the store fails in all its ways. It is
// the random test of each kind, and of several names at once: storm.kind has a name for each.
func TestNobodyIsWrongInAStorm(t *testing.T) { testStorm(t, 0, seeds(1, 2, 3)) }

// TestNobodyIsWrongInAStormOfCrowds is the same, but everybody does everything in the same few moments: all mutexes are
// wanted by many at once, and steps of one come between those of another. The store answers most calls at once. With
// -race it fails if a request for several names locks the mutex of one of them only.
func TestNobodyIsWrongInAStormOfCrowds(t *testing.T) {
	testStorm(t, 10*time.Millisecond, seeds(1))
}

func testStorm(t *testing.T, tick time.Duration, seeds []uint64) {
	testStorms(t, seeds, func(t *testing.T, seed uint64) (int, []string) { return runStorm(t, seed, tick, noLie) })
}

func testStorms(t *testing.T, seeds []uint64, run func(*testing.T, uint64) (grants int, wrong []string)) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			grants, wrong := run(t, seed)
			for _, w := range wrong[:min(len(wrong), 2)] {
				t.Error(w)
			}
			if t.Logf("%d grants", grants); grants < fewestGrants() {
				t.Errorf("got %d grants only: this shows nothing", grants)
			}
		})
	}
}

// TestTheStormWouldShowTwoHolders is the control: the same with a store that grants now and then what is held. One
// storm may happen not to meet each name in that moment, several do.
func TestTheStormWouldShowTwoHolders(t *testing.T) {
	tier.Long(t)
	for _, lies := range []lie{oneLie, severalLie} {
		var wrong []string
		for seed := range uint64(3) {
			_, w := runStorm(t, 4+seed, 0, lies)
			wrong = append(wrong, w...)
		}
		for i := 2; i < stressNames; i++ {
			if !slices.ContainsFunc(wrong, func(s string) bool {
				return strings.Contains(s, name(i)) &&
					strings.Contains(s, "at once")
			}) {
				t.Errorf("%s: nobody noticed it at %s: %q", lies, name(i), wrong)
			}
		}
	}
}

func runStorm(t *testing.T, seed uint64, tick time.Duration, lies lie) (grants int, wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		store := newChaos(memstore.New(), seed)
		store.lies, store.tick = lies, tick
		s := &storm{t: t, tick: tick, stores: []lock.Store{store, store}, faulty: []*chaos{store}}
		grants, wrong = s.run(seed)
	})
	return grants, wrong
}

// run is a storm in a bubble.
func (s *storm) run(seed uint64) (grants int, wrong []string) {
	s.o, s.over = newOracle(), make(chan struct{})
	dogs := []*watchdog.Watchdog[*broker.Lease]{s.addReplica(), s.addReplica()}
	rng := func(n int) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, uint64(n))) } //nolint:gosec // a test
	for i := range 8 {
		s.wg.Go(func() { s.beClient(i, rng(10+i)) })
	}
	for i := range 3 {
		s.wg.Go(func() { s.beUnary(i, rng(100+i)) })
	}
	s.weather(rng(2))
	for _, c := range s.faulty {
		c.calmDown()
	}
	close(s.over)
	s.wg.Wait()
	for _, c := range s.faulty {
		c.late.Wait()
	}
	time.Sleep(afterTheStorm)
	s.inspect()
	for i, b := range s.replicas {
		if err := b.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
		dogs[i].Close()
	}
	return s.o.grants(), s.o.verdict(s.forces(), s.notes())
}

func (s *storm) addReplica() *watchdog.Watchdog[*broker.Lease] {
	cfg := testConfig()
	cfg.Session.TTL, cfg.Session.MaxTTL, cfg.HandoffBurst = longestLease, longestLease, 3
	l := &cfg.Limits
	l.LocksPerSession, l.WaitersPerSession, l.WatchesPerSession, l.QueueLength = 8, 6, 2, 12
	l.MaxLease, l.MaxWait = longestLease, time.Minute
	reg := prometheus.NewRegistry()
	store := s.stores[len(s.replicas)]
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	b := broker.New(cfg, settled(s.t, store), dog, zap.NewNop(), reg)
	s.replicas, s.regs = append(s.replicas, b), append(s.regs, reg)
	return dog
}

// weather lets the store fail, frees locks by force, has members lose their data, and stops a replica in the middle.
func (s *storm) weather(rng *mrand.Rand) {
	end := time.Now().Add(stressTime)
	for stopped := false; time.Now().Before(end); {
		time.Sleep(s.upTo(rng, 2*time.Second))
		switch rng.IntN(6) {
		case 0:
			all := s.faulty
			some := rng.Perm(len(all))[:1+rng.IntN(len(all))]
			for _, i := range some {
				all[i].setDown(true)
			}
			time.Sleep(s.upTo(rng, 3*time.Second))
			for _, i := range some {
				all[i].setDown(false)
			}
		case 1: // the names of unary and session clients alike, but for the first two
			i := 2 + rng.IntN(stressNames-2)
			if rng.IntN(2) == 0 {
				_, _ = s.replicas[0].AnnounceForce(context.Background(), name(i), byAlice)
			}
			_, _ = s.replicas[0].ForceRelease(context.Background(), name(i), s.kind(i, rng))
		case 4:
			s.endSomebody(rng)
		case 2:
			if s.forgets != nil && rng.IntN(4) == 0 {
				s.forgets[rng.IntN(len(s.forgets))]()
			}
		case 3:
			if !stopped && time.Until(end) < stressTime/2 {
				stopped = true
				s.replicas[1].Drain(time.Second)
				time.Sleep(time.Second / 2)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				_ = s.replicas[1].Close(ctx)
				cancel()
			}
		}
	}
}

// endSomebody ends a session, and what it holds is released.
func (s *storm) endSomebody(rng *mrand.Rand) {
	var open []*actor
	s.asked.Range(func(_, a any) bool {
		if a := a.(*actor); a.Cause() == nil {
			open = append(open, a)
		}
		return true
	})
	if len(open) > 0 {
		a := open[rng.IntN(len(open))]
		a.release.Store(true)
		_, _ = s.replicas[rng.IntN(2)].EndSession(context.Background(), a.ID(), byAlice)
	}
}

// inspect checks that nothing is left when all clients are gone and every lease has had its time.
func (s *storm) inspect() {
	synctest.Wait()
	for i, b := range s.replicas {
		if r := b.Residue(); r != "" {
			s.o.complain("replica %d keeps %s", i, r)
		}
		families, err := s.regs[i].Gather()
		if err != nil {
			s.t.Error(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if n := f.GetName(); (n == "lockd_waiters" || n == "lockd_locks_held") && m.GetGauge().GetValue() != 0 {
					s.o.complain("replica %d counts %v %s", i, m.GetGauge().GetValue(), n)
				}
			}
		}
	}
	s.asked.Range(func(key, _ any) bool {
		if r := key.(*broker.Session).Residue(); r != "" {
			s.o.complain("an ended session keeps %s", r)
		}
		return true
	})
	s.inspectStore()
	for _, c := range s.faulty {
		held, _, err := c.Store.List(context.Background(), "", "", 100)
		if err != nil || len(held) > 0 {
			s.o.complain("left in the store: %+v, %v", held, err)
		}
	}
}

// inspectStore checks that nothing is in the way of whoever comes next.
func (s *storm) inspectStore() {
	for i := range stressNames {
		if s.books != nil { // each member is looked at
			return
		}
		for _, k := range map[int][]lock.Kind{4: {lock.Fair}, 5: {lock.Write, lock.Read}, 6: {lock.Semaphore}}[i] {
			c := lock.Claim{Name: name(i), Kind: k, Owner: "last", TTL: time.Second}
			if k == lock.Semaphore {
				c.Permits, c.Limit = stressLimit, stressLimit
			}
			if _, err := lock.Await(context.Background(), s.faulty[0].Store.StartAcquire, c); err != nil {
				s.o.complain("%s is not free for %v: %v", c.Name, k, err)
				continue
			}
			_, _ = lock.Await(context.Background(), s.faulty[0].Store.StartRelease,
				lock.Return{Name: c.Name, Kind: k, Owner: "last", Permits: c.Permits})
		}
		if q, err := s.stores[0].Queue(context.Background(), name(i), 10); err != nil || len(q) > 0 {
			s.o.complain("%q wait for %s, %v", q, name(i), err)
		}
	}
}

// beUnary takes leases without a session.
func (s *storm) beUnary(i int, rng *mrand.Rand) {
	for n := 0; !s.isOver(); n++ {
		time.Sleep(s.upTo(rng, time.Second))
		b := s.replicas[rng.IntN(2)]
		item := s.item(rng.IntN(stressNames), rng)
		req := request.Once{
			Name: item.Name, Kind: item.Kind, Permits: item.Permits, Limit: item.Limit, Lease: s.lease(rng),
			Wait: new(s.upTo(rng, 2*time.Second)),
		}
		own := rng.IntN(2) == 0
		if own {
			req.LeaseID = rand.Text()
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.upTo(rng, 3*time.Second))
		l, refused, err := b.AcquireOnce(ctx, req)
		if own && (err != nil || refused != nil) { // repeat, then release whatever there is
			l, refused, err = b.AcquireOnce(ctx, req)
		}
		cancel()
		if err == nil && refused == nil && l.ValidFor > 0 {
			s.useUnary(b, fmt.Sprintf("unary %d.%d", i, n), item, l, rng)
		} else if own {
			_, _ = b.ReleaseOnce(request.Once{Name: req.Name, Kind: req.Kind, LeaseID: req.LeaseID})
		}
	}
}

func (s *storm) useUnary(b *broker.Broker, who string, item request.Item, l broker.OnceLease, rng *mrand.Rand) {
	hold := session.Hold{Name: l.Name, Kind: item.Kind, Holder: who, Fence: l.Fence}
	t := s.o.granted(hold, item.Permits, who, time.Now().Add(l.ValidFor))
	for range rng.IntN(3) {
		time.Sleep(s.upTo(rng, time.Second))
		more, err := b.ExtendOnce(request.Once{Name: l.Name, Kind: item.Kind, LeaseID: l.LeaseID, Lease: s.lease(rng)})
		switch {
		case errors.Is(err, lock.ErrNotHeld), err == nil && more.ValidFor <= 0:
			s.o.ended(t)
		case err == nil && item.Kind.Shared() && s.o.isOver(t): // as below, but its fence is not told
			s.o.ended(t)
		// It ended, and a repetition that came late took the name again.
		case err == nil && !item.Kind.Shared() && more.Fence != l.Fence:
			s.o.ended(t)
			l.Fence, hold.Fence = more.Fence, more.Fence
			t = s.o.granted(hold, item.Permits, who, time.Now().Add(more.ValidFor))
		case err == nil:
			s.o.trusted(t, time.Now().Add(more.ValidFor))
		}
	}
	s.o.ended(t)
	if rng.IntN(3) > 0 {
		_, _ = b.ReleaseOnce(request.Once{Name: l.Name, Kind: item.Kind, LeaseID: l.LeaseID})
	}
}

// upTo is a random pause.
func (s *storm) upTo(rng *mrand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d))).Truncate(s.tick)
}

func (s *storm) lease(rng *mrand.Rand) time.Duration {
	return time.Duration(math.Exp(rng.Float64()*math.Log(float64(longestLease/(100*time.Millisecond)))) * float64(
		100*time.Millisecond)).Truncate(s.tick)
}

func (s *storm) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}
