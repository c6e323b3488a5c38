package broker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redlock"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// book is the store of one replica, which is a majority, and what is known of it.
type book struct {
	*redlock.Store

	mu       sync.Mutex // guards the fields below
	forced   map[string][]force
	returned map[session.Hold]time.Time
}

func returnedHold(name string, f lock.Fence) session.Hold { return session.Hold{Name: name, Fence: f} }

func (b *book) begun(r lock.Return) {
	if r.Keep > 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := returnedHold(r.Name, r.Fence); b.returned[k].IsZero() {
		b.returned[k] = time.Now()
	}
}

func (b *book) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	b.begun(r)
	b.Store.StartRelease(r, done)
}

// ForceRelease notes when it began and was over: some members do it earlier than others.
func (b *book) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	f := force{at: time.Now()}
	held, err := b.Store.ForceRelease(ctx, name, k)
	f.over = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forced[name] = append(b.forced[name], f)
	return held, err
}

// whenReturned is when a replica began to release a hold, or now.
func (s *storm) whenReturned(h session.Hold) time.Time {
	if s.books == nil {
		return s.faulty[0].whenReturned(h)
	}
	at := time.Now()
	for _, b := range s.books {
		b.mu.Lock()
		if t, ok := b.returned[returnedHold(h.Name, h.Fence)]; ok && t.Before(at) {
			at = t
		}
		b.mu.Unlock()
	}
	return at
}

// forces are the forced releases of each name.
func (s *storm) forces() map[string][]force {
	if s.books == nil {
		return s.faulty[0].forced
	}
	all := map[string][]force{}
	for _, b := range s.books {
		for name, fs := range b.forced {
			all[name] = append(all[name], fs...)
		}
	}
	return all
}

// notes are what was executed for each name.
func (s *storm) notes() map[string][]note {
	all := map[string][]note{}
	for i, c := range s.faulty {
		for name, ns := range c.notes {
			for _, n := range ns {
				all[name] = append(all[name], note{n.at, fmt.Sprint(i, " ", n.text)})
			}
		}
	}
	return all
}

// forgetful is a member that may lose its data.
type forgetful struct {
	*chaos
	memory *memstore.Store

	when  sync.Mutex // guards the field below
	since time.Time
}

// DataLoss is what a majority asks its members.
func (f *forgetful) DataLoss() (time.Time, bool) {
	f.when.Lock()
	defer f.when.Unlock()
	return f.since, !f.since.IsZero()
}

func (f *forgetful) lose() {
	f.when.Lock()
	f.since = time.Now()
	f.when.Unlock()
	f.memory.Lose()
}

// majorityStorm is a storm over five members, of which each of two replicas has a majority.
func majorityStorm(t *testing.T, seed uint64, lies lie) (grants int, wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &storm{t: t}
		var members []lock.Store
		for i := range uint64(5) {
			f := &forgetful{memory: memstore.New()}
			f.chaos = newChaos(f.memory, seed+i)
			f.lies = lies
			s.faulty, members = append(s.faulty, f.chaos), append(members, f)
			s.forgets = append(s.forgets, f.lose)
		}
		for range 2 {
			var own []lock.Store
			for _, m := range members {
				own = append(own, settledMember(t, m))
			}
			store, err := redlock.New(redlock.Config{Quarantine: 2 * longestLease}, own, zap.NewNop(), nil)
			must(t, err)
			b := &book{Store: store, forced: map[string][]force{}, returned: map[session.Hold]time.Time{}}
			s.books, s.stores = append(s.books, b), append(s.stores, b)
		}
		grants, wrong = s.run(seed)
		for _, b := range s.books {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return grants, wrong
}

// TestNobodyIsWrongInAStormOverAMajority is TestNobodyIsWrongInAStorm over a majority of stores, each of which fails in
// all its ways.
func TestNobodyIsWrongInAStormOverAMajority(t *testing.T) {
	testStorms(t, seeds(1, 2), func(t *testing.T, seed uint64) (int, []string) { return majorityStorm(t, seed, noLie) })
}

// The control: members that now and then grant what is held.
func TestTheStormOverAMajorityWouldShowTwoHolders(t *testing.T) {
	tier.Long(t)
	for seed := range uint64(5) {
		_, wrong := majorityStorm(t, seed, oneLie)
		if slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "at once") }) {
			return
		}
	}
	t.Error("nobody noticed it")
}
