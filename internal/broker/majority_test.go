package broker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redlock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// group is some replicas on a majority of stores.
type group struct {
	*testing.T
	members  []*faults
	seen     []*distant // by all replicas
	replicas []*world
}

// distant is a member as one replica sees it: calls and answers each take the time way.
type distant struct {
	faults
	way time.Duration
}

func (d *distant) across(next func() error) error {
	time.Sleep(d.way)
	err := next()
	time.Sleep(d.way)
	return err
}

func (d *distant) Listen(name string, k lock.Kind, notify func(lock.Notice)) (stop func()) {
	return d.Store.Listen(name, k, func(n lock.Notice) { time.AfterFunc(d.way, func() { notify(n) }) })
}

// inGroup runs a test with five members and some replicas, each with a majority of its own over them. One member is
// farther away than the one before.
func inGroup(t *testing.T, replicas int, test func(g *group)) {
	way := func(_, member int) time.Duration { return time.Duration(1+member) * 150 * time.Microsecond }
	inGroupAt(t, replicas, way, test)
}

// inGroupAt is inGroup where way says how far a member is from a replica.
func inGroupAt(t *testing.T, replicas int, way func(replica, member int) time.Duration, test func(g *group)) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{T: t}
		for range 5 {
			g.members = append(g.members, &faults{Store: memstore.New()})
		}
		for r := range replicas {
			var all []lock.Store
			for i, m := range g.members {
				d := &distant{faults: faults{Store: m}, way: way(r, i)}
				for _, verb := range []string{"Acquire", "Release", "Raise", "Look"} {
					d.inOrder(verb, plainly(d.across))
				}
				g.seen, all = append(g.seen, d), append(all, settledMember(t, d))
			}
			s, err := redlock.New(redlock.Config{}, all, zap.NewNop(), nil)
			must(t, err)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			g.replicas = append(g.replicas, startOn(t, testConfig(), s))
		}
		test(g)
		for _, m := range g.members {
			m.well()
			m.setDown(nil)
		}
		time.Sleep(10 * time.Second) // what is not acknowledged yet is by then
	})
}

// Those who wait at several replicas all get their turn, one at a time, although the votes of the replicas meet at the
// members. So they do if members are away, or silent: then they may have done what they were asked for, or not.
func TestReplicasShareAMajority(t *testing.T) {
	for what, spoil := range map[string]func(m *faults){
		"away":                   func(m *faults) { m.setDown(lock.ErrUnavailable) },
		"silent":                 func(m *faults) { m.fallSilent(false) },
		"silent, and they do it": func(m *faults) { m.fallSilent(true) },
	} {
		for n := range 3 {
			inGroup(t, 3, func(g *group) {
				for _, m := range g.members[:n] {
					spoil(m)
				}
				t.Log(n, what)
				crew{
					workers: 9, times: 20, atOnce: 1, stay: 2 * time.Millisecond, within: 20 * time.Second,
					request: func(int, lock.Kind) request.Acquire { return request.Acquire{Name: "job"} },
				}.work(g.T, g.replicas, lock.Exclusive)
			})
		}
	}
}

// Replicas each of which is nearer to another member than the others are all get the name, though each comes first at
// its member. Silent members make it no slower than members that are gone.
func TestReplicasNearOtherMembersShareAMajority(t *testing.T) {
	span := tier.Pick(2*time.Second, 10*time.Second)
	for _, distance := range []time.Duration{time.Millisecond, 0, 10 * time.Millisecond}[:tier.Pick(1, 3)] {
		contend := func(spoil func(m *faults)) (grants int) {
			way := func(replica, member int) time.Duration {
				if replica == member {
					return time.Millisecond / 2
				}
				return (time.Millisecond + distance) / 2
			}
			inGroupAt(t, 3, way, func(g *group) {
				for _, m := range g.members[3:] {
					spoil(m)
				}
				served := crew{
					workers: 3, span: span, atOnce: 1, stay: 2 * time.Millisecond,
					request: func(int, lock.Kind) request.Acquire { return request.Acquire{Name: "job"} },
				}.work(g.T, g.replicas, lock.Exclusive)
				grants = len(served)
				attempts := int64(0)
				for _, d := range g.seen {
					attempts += d.acquires.Load() / int64(len(g.members))
				}
				slices.Sort(served)
				if all := slices.Compact(served); len(all) != 3 || attempts > int64(1500*span/time.Second) {
					t.Errorf("%v apart: in %v %d were granted to %v, in %d attempts", distance, span, grants, all, attempts)
				}
				time.Sleep(time.Minute) // until what is left is over
			})
			return grants
		}
		contend(func(*faults) {})
		gone, silent := 0, 0
		for n := 0; n < 5 && (n == 0 || silent < gone/2); n++ { // of a hundred times one is so by chance
			gone += contend(func(m *faults) { m.setDown(lock.ErrUnavailable) })
			silent += contend(func(m *faults) { m.fallSilent(false) })
		}
		if silent < gone/2 {
			t.Errorf("%v apart: %d were granted with members that are silent, and %d without them", distance, silent, gone)
		}
	}
}

// fallSilent has a member answer nothing of acquisitions and releases, which it carries out or not.
func (f *faults) fallSilent(does bool) {
	for _, verb := range []string{"Acquire", "Release"} {
		f.inOrder(verb, plainly(func(next func() error) error {
			if does {
				_ = next() // nobody hears of it
			}
			time.Sleep(time.Second)
			return errUnknown
		}))
	}
}

func TestAMajorityRefusesWhatItCannotPromise(t *testing.T) {
	inGroup(t, 1, func(g *group) {
		c := g.replicas[0].alive()
		c.acquire(request.Acquire{Name: "s", Kind: lock.Semaphore, Permits: 1, Limit: 2})
		c.failed(lock.ErrKindUnsupported)
		c.acquire(request.Acquire{Name: "f", Kind: lock.Fair})
		c.failed(lock.ErrKindUnsupported)
		c.acquire(request.Acquire{Name: "w", Kind: lock.Write})
		if e, ok := c.await().(session.Granted); !ok {
			t.Errorf("got %#v", e)
		}
	})
}

// Without a majority holders are told AtRisk, and Lost at the end of their validity; requests are refused with the
// reason.
func TestWithoutAMajorityHoldersHearOfIt(t *testing.T) {
	inGroup(t, 1, func(g *group) {
		c := g.replicas[0].alive()
		c.acquire(request.Acquire{Name: "job"})
		granted := c.await().(session.Granted)
		for i := range 2 {
			g.members[i].setDown(lock.ErrUnavailable)
		}
		time.Sleep(time.Minute)
		c.none()
		g.members[2].setDown(lock.ErrUnavailable)
		begun := time.Now()
		var told []string
		for len(told) < 2 {
			e := c.await()
			told = append(told, fmt.Sprintf("%T", e))
			if lost, ok := e.(session.Lost); ok && (lost.Reason != lock.LostQuorum || lost.Hold.Name != granted.Hold.Name) {
				t.Errorf("got %+v", lost)
			}
		}
		if want := []string{"session.AtRisk", "session.Lost"}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		if took := time.Since(begun); took > 31*time.Second {
			t.Errorf("it took %v", took)
		}
		c.acquire(request.Acquire{Name: "other", Wait: new(time.Duration)})
		if e, ok := c.await().(session.Failed); !ok || !isError(e.Err, lock.ErrNoQuorum) {
			t.Errorf("got %#v, want it refused because there is no majority", e)
		}
		g.members[2].setDown(nil)
		c.acquire(request.Acquire{Name: "job"})
		for {
			e := c.await()
			if _, ok := e.(session.Granted); ok {
				return
			}
			if _, ok := e.(session.Safe); !ok {
				t.Fatalf("got %#v", e)
			}
		}
	})
}

// Members that are restarted one after the other without their data lose no lock that is renewed.
func TestRestartedMembersLoseNoLock(t *testing.T) {
	inGroup(t, 1, func(g *group) {
		c := g.replicas[0].alive()
		c.acquire(request.Acquire{Name: "job"})
		granted := c.await().(session.Granted)
		for range 2 {
			for _, m := range g.members {
				m.Store.(*memstore.Store).Lose()
				time.Sleep(30 * time.Second)
			}
		}
		c.none()
		c.Release(c.id(), granted.Hold)
		if e, ok := c.await().(session.Released); !ok {
			t.Errorf("got %#v", e)
		}
		time.Sleep(20 * time.Second)
		for i, m := range g.members {
			if st, err := m.Store.Look(t.Context(), "job"); err != nil || st.Held {
				t.Errorf("member %d: %+v, %v", i, st, err)
			}
		}
	})
}

// Over a majority, too, a name is handed to the next one of the same replica: it takes one round, and
// docs/topologies.md says so.
func TestANamePassesOnInOneRound(t *testing.T) {
	const round = 900 * time.Microsecond // the third of five members
	inGroup(t, 1, func(g *group) {
		first, next := g.replicas[0].alive(), g.replicas[0].alive()
		first.acquire(request.Acquire{Name: "job"})
		granted := first.await().(session.Granted)
		next.acquire(request.Acquire{Name: "job"})
		time.Sleep(time.Second)
		begun := time.Now()
		first.Release(first.id(), granted.Hold)
		if e, ok := next.await().(session.Granted); !ok {
			t.Fatalf("got %#v", e)
		}
		if took := time.Since(begun); took < round || took > round+time.Millisecond/2 {
			t.Errorf("it took %v, want one round of %v", took, round)
		}
	})
}

// Who leaves while it is handed the name by a majority has it no longer than it takes to pass it on.
func TestWhatAMajorityHandsToOneThatLeftGoesOn(t *testing.T) {
	inGroup(t, 2, func(g *group) {
		first, gone, next := g.replicas[0].alive(), g.replicas[0].alive(), g.replicas[1].alive()
		for range 20 {
			first.acquire(request.Acquire{Name: "job"})
			granted := first.await().(session.Granted)
			waits := gone.acquire(request.Acquire{Name: "job"})
			time.Sleep(100 * time.Millisecond)
			next.acquire(request.Acquire{Name: "job"})
			time.Sleep(100 * time.Millisecond)
			first.Release(first.id(), granted.Hold)
			time.Sleep(700 * time.Microsecond) // some members have done it
			gone.Cancel(gone.id(), waits)
			begun := time.Now()
			e, ok := next.await().(session.Granted)
			if took := time.Since(begun); !ok || took > 100*time.Millisecond {
				t.Fatalf("got %#v after %v", e, took)
			}
			next.Release(next.id(), e.Hold)
			first.await()
			gone.await()
			next.await()
		}
	})
}

// A majority ended the hold and does not know that one handed the name over to a unary caller, whose wait is over.
func TestWhatAMajorityMayHaveHandedToAUnaryCallerIsUndone(t *testing.T) {
	inGroup(t, 1, func(g *group) {
		c := g.replicas[0].alive()
		c.acquire(request.Acquire{Name: "job"})
		hold := c.awaitGrant().Hold
		time.Sleep(100 * time.Millisecond)
		told := make(chan error, 1)
		go func() {
			_, refused, err := g.replicas[0].b.AcquireOnce(g.Context(), request.Once{
				Name: "job", Kind: lock.Exclusive, Lease: time.Hour, Wait: new(40 * time.Millisecond),
			})
			if refused != nil {
				err = refused.Cause
			}
			told <- err
		}()
		time.Sleep(10 * time.Millisecond)
		calls := [2]int{}
		g.members[2].onCall("Release", func(r call) error { // done, and the answer is lost
			err := r.do()
			if calls[0]++; calls[0] == 1 {
				return errUnknown
			}
			return err
		})
		g.members[3].onCall("Release", func(r call) error { // not done at first
			if calls[1]++; calls[1] == 1 {
				time.Sleep(60 * time.Millisecond)
				return errUnknown
			}
			return r.do()
		})
		g.members[4].Store.(*memstore.Store).Lose()
		c.Release(c.id(), hold)
		if err := <-told; !errors.Is(err, session.ErrTimedOut) {
			g.Errorf("the unary caller is told %v", err)
		}
		time.Sleep(10 * time.Second)
		for i, m := range g.members {
			if st, err := m.Store.Look(g.Context(), "job"); err != nil || st.Held {
				g.Errorf("member %d: %+v, %v", i, st, err)
			}
		}
	})
}
