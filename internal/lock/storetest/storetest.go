// Package storetest is the contract of lock.Store: a suite that each Store passes (Run), and a comparison of two Stores
// by random operations (Compare).
package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Hooks do to a Store what its server or an operator could do, and its interface cannot.
type Hooks struct {
	// Expire ends the leases of all holders of a name as if their time had passed. Nothing is left of a semaphore, not
	// even its limit. Waiters go on waiting.
	Expire func(name string) error
	// ExpireHold ends the read hold, or the permits, of one of several owners, as if their time had passed. It does
	// nothing to others, and nothing if there are none.
	ExpireHold func(name string, o lock.Owner) error
	// ExpirePlace ends the place of a waiter as if its time had passed: one in a queue, or one that keeps readers away.
	ExpirePlace func(name string, o lock.Owner) error
	// Lose makes the store forget everything.
	Lose func() error
	// Occupy puts something that is no lock under a name.
	Occupy func(name string) error
	// Together calls start, and has the acquisitions and releases that it begins reach the server together, in the order
	// of each tenant's, with one fate. It may be nil; then Compare makes one after the other.
	Together func(fate Fate, start func()) error
	// RunLate executes what Together delayed. It is nil if Together is.
	RunLate func() error
}

// HooksOf are the hooks of a Store that has them as methods, such as memstore.
func HooksOf(s interface {
	Expire(name string)
	ExpireHold(name string, o lock.Owner)
	ExpirePlace(name string, o lock.Owner)
	Lose()
	Occupy(name string)
},
) Hooks {
	return Hooks{
		Expire:      func(name string) error { s.Expire(name); return nil },
		ExpireHold:  func(name string, o lock.Owner) error { s.ExpireHold(name, o); return nil },
		ExpirePlace: func(name string, o lock.Owner) error { s.ExpirePlace(name, o); return nil },
		Lose:        func() error { s.Lose(); return nil },
		Occupy:      func(name string) error { s.Occupy(name); return nil },
	}
}

// Rig is a Store with its hooks.
type Rig struct {
	Store lock.Store
	Hooks Hooks
	// Apart says that names may be on different servers. Then AcquireAll takes names from one server after the other: it
	// may name any hold in the way, and a semaphore that it released keeps its limit. All keys of a name must be on one
	// server.
	Apart bool
	// AnyFence: a release ends the owner's hold whatever its fence is.
	AnyFence bool
	// Refuses are the kinds that the Store lacks. Each call with one of them must return lock.ErrKindUnsupported.
	Refuses []lock.Kind
}

// Run runs the contract suite. newRig is called for each test and returns an empty Store.
func Run(t *testing.T, newRig func(t *testing.T) Rig) {
	for _, g := range []struct {
		name  string
		of    lock.Kind // that the Store must have, if it is any
		tests []contract
	}{
		{"Exclusive", lock.Exclusive, common(lock.Exclusive)},
		{"Fair", lock.Fair, slices.Concat(common(lock.Fair), fairContract, fairPlaceContract, fairListenContract)},
		{"Read", lock.Read, slices.Concat(common(lock.Read), readContract)},
		{"Write", lock.Write, slices.Concat(common(lock.Write), writeContract)},
		{"Semaphore", lock.Semaphore, slices.Concat(common(lock.Semaphore), semaphoreContract)},
		{"Renew", 0, renewContract},
		{"Shorten", 0, shortenContract},
		{"Holders", 0, holdersContract},
		{"List", 0, listContract},
		{"Listen", 0, listenContract},
		{"Peers", 0, peersContract},
		{"Refusals", 0, refusalContract},
		{"Kinds", 0, kindsContract},
		{"AcquireAll", 0, allContract},
		{"Fences", 0, fenceContract},
		{"Sessions", 0, sessionContract},
	} {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.tests {
				t.Run(c.name, func(t *testing.T) {
					s := &suite{t, newRig(t)}
					s.needs(g.of)
					c.test(s)
				})
			}
		})
	}
}

// contract is one sentence of the contract.
type contract struct {
	name string
	test func(s *suite)
}

// within is how long a notice may take.
const within = 10 * time.Second

// The usual lease, longer than any test takes.
const ttl = time.Minute

// suite is a test with its Store. Its methods end the test when the call that they make fails.
type suite struct {
	*testing.T
	Rig
}

// has says whether the Store has locks of a kind.
func (r Rig) has(kind lock.Kind) bool { return !slices.Contains(r.Refuses, kind) }

// needs ends a test of a kind that the Store lacks. Another test checks that the Store refuses that kind.
func (s *suite) needs(kind lock.Kind) {
	s.Helper()
	if !s.has(kind) {
		s.Skipf("this store has no %v locks", kind)
	}
}

// these are the kinds that the Store has, of some, or of all if none are given.
func (s *suite) these(some ...lock.Kind) []lock.Kind {
	if len(some) == 0 {
		some = allKinds
	}
	return slices.DeleteFunc(slices.Clone(some), func(k lock.Kind) bool { return !s.has(k) })
}

// await is lock.Await for a call that must tell its outcome once.
func await[R, T any](ctx context.Context, start func(r R, done func(T, error)), r R) (T, error) {
	return lock.Await(ctx, func(r R, done func(T, error)) {
		var told atomic.Bool
		start(r, func(v T, err error) {
			if told.Swap(true) {
				panic("done was called twice")
			}
			done(v, err)
		})
	}, r)
}

func (s *suite) acquire(c lock.Claim) lock.Grant {
	s.Helper()
	g, err := await(s.Context(), s.Store.StartAcquire, c)
	if err != nil {
		s.Fatalf("acquire %+v: %v", c, err)
	}
	return g
}

func (s *suite) release(r lock.Return) lock.Returned {
	s.Helper()
	res, err := await(s.Context(), s.Store.StartRelease, r)
	if err != nil {
		s.Fatalf("release %+v: %v", r, err)
	}
	return res
}

// renew makes one renewal and returns its error.
func (s *suite) renew(r lock.Renewal) error {
	s.Helper()
	calls := 0
	var got error
	s.Store.Renew(s.Context(), []lock.Renewal{r}, func(i int, err error) {
		calls++
		got = err
		if i != 0 {
			s.Errorf("done was called with index %d, want 0", i)
		}
	})
	if calls != 1 {
		s.Fatalf("done was called %d times, want once", calls)
	}
	if _, again := await(s.Context(), s.Store.StartExtend, r); class(again) != class(got) {
		s.Errorf("Extend of the same gives %v, Renew gave %v", again, got)
	}
	return got
}

func (s *suite) look(name string) lock.State {
	s.Helper()
	st, err := s.Store.Look(s.Context(), name)
	if err != nil {
		s.Fatalf("look at %q: %v", name, err)
	}
	st.Members = 0 // one Store or several
	return st
}

func (s *suite) until(what string, so func() bool) {
	s.Helper()
	for deadline := time.Now().Add(within); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within %v: %s", within, what)
		}
	}
}

func (s *suite) untilGranted(c lock.Claim) {
	s.Helper()
	s.until("it is granted", func() bool {
		_, err := await(s.Context(), s.Store.StartAcquire, c)
		if err != nil {
			s.wantErr(err, lock.ErrHeld)
		}
		return err == nil
	})
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func errOf[T any](_ T, err error) error { return err }

func (s *suite) wantErr(got, want error) {
	s.Helper()
	if !errors.Is(got, want) {
		s.Errorf("got error %v, want %v", got, want)
	}
}

func (s *suite) wantFence(got, want lock.Fence) {
	s.Helper()
	if got != want {
		s.Errorf("got fence %d, want %d", got, want)
	}
}

// wantGone checks that an error is a *lock.GoneError with a reason.
func (s *suite) wantGone(got error, want lock.LostReason) {
	s.Helper()
	gone, ok := errors.AsType[*lock.GoneError](got)
	if !ok || gone.Reason != want {
		s.Errorf("got error %v, want a GoneError with reason %v", got, want)
	}
}

// wantTTL checks a remaining time: at most 5 s less than wanted, and not more.
func (s *suite) wantTTL(got, want time.Duration) {
	s.Helper()
	if got > want || got < want-5*time.Second {
		s.Errorf("got remaining time %v, want about %v", got, want)
	}
}

func (s *suite) ended() context.Context {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	return ctx
}
