package faultrun

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

// perSession is how many locks a session holds.
const perSession = 10

// sessions is how many there are at the replica that fails: in short fewer.
func sessions() int {
	if *length == 0 {
		return 40
	}
	return 200
}

// keepers hold locks all the while.
type keepers struct {
	f     *fleet
	each  []*member
	locks [][]*held // by member
}

// keep has sessions at the replica 0 hold locks.
func keep(f *fleet, n int) *keepers {
	f.t.Helper()
	k := &keepers{f: f, each: make([]*member, n), locks: make([][]*held, n)}
	var all sync.WaitGroup
	for i := range k.each {
		k.each[i] = f.dial(fmt.Sprint("keeper ", i), 0)
		all.Go(func() {
			for j := range perSession {
				l, err := k.each[i].take(f.t.Context(), nameOf(i, j))
				if err != nil {
					f.t.Error(err)
					return
				}
				k.locks[i] = append(k.locks[i], l)
			}
		})
	}
	all.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
	return k
}

func nameOf(keeper, nth int) string { return fmt.Sprintf("kept %d of %d", nth, keeper) }

// verify asks the server of each session what it holds. It must be the same, with the same fences.
func (k *keepers) verify() error {
	var errs []error
	for i, m := range k.each {
		if err := m.holdsAll(k.locks[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.id, err))
		}
	}
	return errors.Join(errs...)
}

// holdsAll compares what a member believes to hold with what its server says.
func (m *member) holdsAll(locks []*held) error {
	told := map[string]uint64{}
	for h, err := range m.Holds(context.Background(), "") {
		if err != nil {
			return err
		}
		told[h.Name] = h.Fence
	}
	for _, l := range locks {
		if err := l.Err(); err != nil {
			return fmt.Errorf("%s: %w", l.Name(), err)
		}
		if told[l.Name()] != l.Fence() {
			return fmt.Errorf("%s has the fence %d, the server knows of the fence %d", l.Name(), l.Fence(), told[l.Name()])
		}
	}
	return nil
}

// awaitMoves waits until all have gone on elsewhere since a time.
func (k *keepers) awaitMoves(since, within time.Duration) {
	k.f.t.Helper()
	late := func(m *member) bool { return !m.moved(since) }
	defer func() {
		for _, m := range k.each {
			if late(m) {
				k.f.t.Logf("%s moved %v, its sessions ended %q", m.id, m.moves(), m.ended())
			}
		}
	}()
	harness.Within(k.f.t, within, "all sessions went on at other replicas",
		func() bool { return !slices.ContainsFunc(k.each, late) })
}

// give ends all holds that are left.
func (k *keepers) give() error {
	var errs []error
	for _, locks := range k.locks {
		for _, l := range locks {
			if err := l.give(context.Background()); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", l.of.id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// rivals try to take what others hold, all the time, until they are stopped.
func (f *fleet) rivals(n, names int) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var all sync.WaitGroup
	for i := range n {
		m := f.dial(fmt.Sprint("rival ", i), 1+i%2)
		all.Go(func() {
			r := random(uint64(1000 + i))
			for ctx.Err() == nil {
				m.once(ctx, r, names)
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// once tries to take a name that a keeper has, or had.
func (m *member) once(ctx context.Context, r *rand.Rand, keepers int) {
	l, err := m.try(context.WithoutCancel(ctx), nameOf(r.IntN(keepers), r.IntN(perSession)))
	if err == nil {
		time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		_ = l.give(context.Background()) // a rival may lose what it has; the record tells
	}
}

// must takes the outcomes of checks.
func (f *fleet) must(errs ...error) {
	f.t.Helper()
	if err := errors.Join(errs...); err != nil {
		f.t.Error(err)
	}
}

// noneLost checks that no session of a fleet ended, and that its history is in order.
func (f *fleet) noneLost() {
	f.t.Helper()
	for _, m := range f.all() {
		if why := m.ended(); len(why) > 0 {
			f.t.Errorf("%s: its session ended %q", m.id, why)
		}
	}
	f.must(f.judge().err())
}

// A replica with many sessions is killed. All of them go on at the others, with all that they hold.
func TestAKilledReplicaLosesNothing(t *testing.T) {
	onEachStore(t, 20*time.Second, func(f *fleet, _ store) {
		k := keep(f, sessions())
		stop := f.rivals(4, len(k.each))
		since := f.rec.now()
		f.replicas[0].Kill()
		k.awaitMoves(since, f.ttl) // until then all leases are valid
		_, longest := f.moves()
		f.t.Logf("%d sessions with %d locks went on elsewhere within %v; the slowest was without a stream for %v",
			len(k.each), len(k.each)*perSession, f.rec.now()-since, longest)
		f.must(k.verify())
		if *length > 0 {
			time.Sleep(f.ttl + f.ttl/4) // every lease would have ended
			f.must(k.verify())
		}
		f.must(k.give())
		stop()
		f.noneLost()
	})
}

// stopped is for how long a replica stands still, and the session TTL.
func stopped() (stands, ttl time.Duration) {
	if *length == 0 {
		return 10 * time.Second, 10 * time.Second
	}
	return 40 * time.Second, 30 * time.Second
}

// A replica with many sessions stands still for longer than their TTL, and goes on then. Meanwhile they went on at the
// others, and some of their locks went to somebody else. What the replica does when it wakes up harms none of them.
func TestAReplicaThatStoodStillHarmsNobody(t *testing.T) {
	stands, ttl := stopped()
	onEachStore(t, ttl, func(f *fleet, _ store) {
		k := keep(f, sessions())
		since := f.rec.now()
		f.replicas[0].Signal(syscall.SIGSTOP)
		k.awaitMoves(since, ttl)
		_, longest := f.moves()
		f.t.Logf("all sessions went on elsewhere after %v, the slowest was without a stream for %v", f.rec.now()-since,
			longest)
		successors := k.inherit()
		time.Sleep(time.Until(f.rec.begun.Add(since + stands)))
		f.replicas[0].Signal(syscall.SIGCONT)
		stop := f.rivals(4, len(k.each))
		time.Sleep(ttl / 2)
		f.must(k.verify(), successors.verify())
		f.awaitNoSessions(0)
		f.must(k.verify(), successors.verify())
		f.must(k.give(), successors.give())
		stop()
		f.noneLost()
	})
}

// inherit gives every other lock to new clients at the other replicas.
func (k *keepers) inherit() *keepers {
	k.f.t.Helper()
	successors := &keepers{f: k.f}
	for i, locks := range k.locks {
		successor := k.f.dial(fmt.Sprint("successor ", i), 1+i%2)
		var got, kept []*held
		for j, l := range locks {
			if j%2 == 0 {
				kept = append(kept, l)
				continue
			}
			if err := l.give(context.Background()); err != nil {
				k.f.t.Error(err)
			}
			h, err := successor.take(k.f.t.Context(), l.Name())
			if err != nil {
				k.f.t.Fatal(err)
			}
			got = append(got, h)
		}
		k.locks[i] = kept
		successors.each, successors.locks = append(successors.each, successor), append(successors.locks, got)
	}
	return successors
}

// awaitNoSessions waits until a replica has understood that its sessions are elsewhere.
func (f *fleet) awaitNoSessions(i int) {
	f.t.Helper()
	harness.Within(f.t, 2*f.ttl, "the replica knows of no session any more", func() bool {
		return f.replicas[i].Metric("lockd_sessions") == 0 && sum(f.replicas[i], "lockd_locks_held") == 0
	})
}
