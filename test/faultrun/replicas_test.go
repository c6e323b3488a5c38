package faultrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
)

// Stores that do not fail.
var reliable = map[string]topology{"one Redis": oneRedis, "a majority of three": threeMasters}

func oneRedis(w *world) {
	w.env = append(w.env, "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+redistest.Start(w.t).Addr)
}

func threeMasters(w *world) {
	w.rules.votes = true
	w.env = append(w.env, "LOCKD_STORE_KIND=redlock",
		"LOCKD_REDLOCK_MEMBERS="+strings.Join(redistest.Addrs(redistest.StartMasters(w.t, 3)), ","))
}

// onEachStore runs a test with three replicas on each, side by side.
func onEachStore(t *testing.T, ttl time.Duration, test func(w *world)) {
	t.Parallel()
	for name, over := range reliable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFleet(t, ttl, over))
		})
	}
}

// newFleet starts three replicas. That they hand their sessions over is proven in test/e2e and in virtual time, too; a
// fleet under load keeps more processors busy than the first tier has. How fast the machine is does not matter here.
func newFleet(t *testing.T, ttl time.Duration, over topology, env ...string) *world {
	t.Helper()
	tier.Long(t)
	const call = 5 * time.Second // to a store
	w := newWorld(t, ttl, over, append(env, "LOCKD_REDIS_OP_TIMEOUT="+call.String(), "LOCKD_SESSION_MIN_TTL=5s",
		"LOCKD_REDLOCK_NODE_TIMEOUT=2s")...)
	w.rules.lease = ttl + call
	w.start(3)
	return w
}

// perSession is how many locks a session holds.
const perSession = 10

// pickLength is what a test takes in a short run, and in one with a length.
func pickLength[T any](short, long T) T {
	if *length == 0 {
		return short
	}
	return long
}

// keepers hold locks all the while.
type keepers struct {
	*world
	each  []*member
	locks [][]*held // by member
}

// keepers has sessions at the replica 0 hold locks.
func (w *world) keepers(n int) *keepers {
	w.t.Helper()
	k := &keepers{world: w, each: make([]*member, n), locks: make([][]*held, n)}
	var all sync.WaitGroup
	for i := range k.each {
		k.each[i] = w.dial(fmt.Sprint("keeper ", i), 0)
		all.Go(func() {
			for j := range perSession {
				l, err := k.each[i].lock(w.t.Context(), nameOf(i, j))
				if err != nil {
					w.t.Error(err)
					return
				}
				k.locks[i] = append(k.locks[i], l)
			}
		})
	}
	all.Wait()
	if w.t.Failed() {
		w.t.FailNow()
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
			return fmt.Errorf("%s: %w", l.h.name, err)
		}
		if told[l.h.name] != l.Fence() {
			return fmt.Errorf("%s has the fence %d, the server knows of the fence %d", l.h.name, l.Fence(), told[l.h.name])
		}
	}
	return nil
}

// lost counts holds that their holders lost.
func (k *keepers) lost() (n int) {
	for _, locks := range k.locks {
		for _, l := range locks {
			if l.Err() != nil {
				n++
			}
		}
	}
	return n
}

// awaitMoves waits until all have gone on elsewhere since a time.
func (k *keepers) awaitMoves(since, within time.Duration) {
	k.t.Helper()
	late := func(m *member) bool { return !m.moved(since) }
	defer func() {
		for _, m := range k.each {
			if late(m) {
				k.t.Logf("%s moved %v, its sessions ended %q", m.id, m.moves(), m.ended())
			}
		}
	}()
	harness.Within(k.t, within, "all sessions went on at other replicas",
		func() bool { return !slices.ContainsFunc(k.each, late) })
	k.t.Logf("%d sessions went on elsewhere within %v; %s", len(k.each), k.rec.now()-since, howLong(k.moves()))
}

// give ends all holds that are left.
func (k *keepers) give() error {
	var errs []error
	for _, l := range slices.Concat(k.locks...) {
		if err := l.give(context.Background()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.of.id, err))
		}
	}
	return errors.Join(errs...)
}

// inherit gives every other lock to new clients at the other replicas.
func (k *keepers) inherit() *keepers {
	k.t.Helper()
	successors := &keepers{world: k.world}
	for i, locks := range k.locks {
		successor := k.dial(fmt.Sprint("successor ", i), 1+i%2)
		var got, kept []*held
		for j, l := range locks {
			if j%2 == 0 {
				kept = append(kept, l)
				continue
			}
			k.must(l.give(context.Background()))
			h, err := successor.lock(k.t.Context(), l.h.name)
			harness.Must(k.t, err)
			got = append(got, h)
		}
		k.locks[i] = kept
		successors.each, successors.locks = append(successors.each, successor), append(successors.locks, got)
	}
	return successors
}

// rivals try to take what others hold, or held, all the time, until they are stopped.
func (w *world) rivals(keepers int) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for i := range 4 {
		m, r := w.dial(fmt.Sprint("rival ", i), 1+i%2), random(uint64(1000+i))
		all.Go(func() {
			for ctx.Err() == nil {
				name := nameOf(r.IntN(keepers), r.IntN(perSession))
				l, err := m.take(name, func() (lock, error) { return granted(m.TryLock(context.Background(), name)) })
				if err == nil {
					time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
					_ = l.give(context.Background()) // a rival may lose what it has; the record tells
				}
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// awaitNoSessions waits until a replica has understood that its sessions are elsewhere.
func (w *world) awaitNoSessions(i int) {
	w.t.Helper()
	harness.Until(w.t, "the replica knows of no session any more", func() bool {
		return w.replicas[i].Metric("lockd_sessions") == 0 && sum(w.replicas[i], "lockd_locks_held") == 0
	})
}

// noneCut returns an error if a stream broke, or a session ended.
func (w *world) noneCut() error {
	var errs []error
	for _, m := range w.all() {
		if cuts, ends := m.cuts.Load(), m.ends.Load(); cuts > 0 || ends > 0 {
			errs = append(errs, fmt.Errorf("%s: %d streams broke, %d sessions ended %q", m.id, cuts, ends, m.ended()))
		}
	}
	return errors.Join(errs...)
}

// noneLost checks that no session ended, and that the history is in order.
func (w *world) noneLost() {
	w.t.Helper()
	for _, m := range w.all() {
		if why := m.ended(); len(why) > 0 {
			w.t.Errorf("%s: its session ended %q", m.id, why)
		}
	}
	w.must(w.check())
}

// A replica with many sessions is killed. All of them go on at the others, with all that they hold.
func TestAKilledReplicaLosesNothing(t *testing.T) {
	onEachStore(t, 20*time.Second, func(w *world) {
		k := w.keepers(pickLength(40, 200))
		stop := w.rivals(len(k.each))
		since := w.rec.now()
		w.replicas[0].Kill()
		k.awaitMoves(since, w.ttl) // until then all leases are valid
		w.must(k.verify())
		if *length > 0 {
			time.Sleep(w.ttl + w.ttl/4) // every lease would have ended
			w.must(k.verify())
		}
		w.must(k.give())
		stop()
		w.noneLost()
	})
}

// A replica with many sessions stands still for longer than their TTL, and goes on then. Meanwhile they went on at the
// others, and some of their locks went to somebody else. What the replica does when it wakes up harms none of them.
func TestAReplicaThatStoodStillHarmsNobody(t *testing.T) {
	ttl := pickLength(20*time.Second, 30*time.Second) // to move takes nearly half of it
	onEachStore(t, ttl, func(w *world) {
		k := w.keepers(pickLength(40, 200))
		since := w.rec.now()
		w.replicas[0].Signal(syscall.SIGSTOP)
		k.awaitMoves(since, ttl)
		successors := k.inherit()
		time.Sleep(since + pickLength(ttl, ttl*4/3) - w.rec.now())
		w.replicas[0].Signal(syscall.SIGCONT)
		stop := w.rivals(len(k.each))
		time.Sleep(ttl / 2)
		w.must(k.verify(), successors.verify())
		w.awaitNoSessions(0)
		w.must(k.verify(), successors.verify())
		w.must(k.give(), successors.give())
		stop()
		w.noneLost()
	})
}

// Replicas are killed, stopped and restarted at random while clients use locks, and others hold some all the while.
// Nobody loses a lock: there is always a replica to go on at.
func TestReplicasFailAtRandom(t *testing.T) {
	const ttl = 20 * time.Second // whatever else the machine has to do
	onEachStore(t, ttl, func(w *world) {
		k := w.keepers(10)
		kill := trouble{what: "a kill", spares: true, do: w.killReplica}
		w.faults = []trouble{kill, kill, {what: "a restart", spares: true, do: func() {
			_, err := w.restart(w.rand.IntN(len(w.replicas)))
			w.must(err)
		}}, {what: "a standstill", spares: true, do: func() {
			d := w.replicas[w.rand.IntN(len(w.replicas))]
			d.Signal(syscall.SIGSTOP)
			w.sleep(0, 4*time.Second)
			d.Signal(syscall.SIGCONT)
		}}}
		w.play(w.players(false), pickLength(6*time.Second, *length), ttl+harness.Patience)
		w.must(k.verify(), k.give())
		w.t.Log(howLong(w.moves()))
		for _, h := range w.rec.holds {
			if h.how == history.Lost || h.how == history.NotHeld {
				w.t.Errorf("lost: %v", h)
			}
		}
		w.noneLost()
	})
}

// Operators drain a replica by lockctl and by a call, and take that back; SIGTERM drains it for good. In each case its
// sessions go on elsewhere with their locks, and it is not ready.
func TestReplicasAreDrained(t *testing.T) {
	t.Parallel()
	lockctl, err := harness.Build("lockctl")
	harness.Must(t, err)
	w := newFleet(t, 30*time.Second, oneRedis)
	ready := func(i, want int) {
		t.Helper()
		if code, body := w.replicas[i].Get("/readyz"); code != want {
			t.Errorf("/readyz of replica %d: %d %s, want %d", i, code, body, want)
		}
	}
	k := w.keepers(10)
	d := w.replicas[0]

	since := w.rec.now()
	d.Tool(lockctl, "drain", "--within", "20s").Want(0, "replica-0 drains, asked 10 sessions to move\n")
	ready(0, http.StatusServiceUnavailable)
	k.awaitMoves(since, harness.Patience)
	w.awaitNoSessions(0)
	w.must(k.verify(), w.noneCut())
	d.Tool(lockctl, "drain", "--undo").Want(0, "replica-0 takes clients again\n")
	ready(0, http.StatusOK)
	_, err = w.dial("new", 0).lock(t.Context(), "new")
	harness.Must(t, err)
	if n := d.Metric("lockd_sessions"); n != 1 {
		t.Errorf("%v sessions after the drain was taken back, want the new one", n)
	}

	admin := lockdv1.NewAdminServiceClient(w.replicas[1].Operate(t))
	there := uint32(w.replicas[1].Metric("lockd_sessions"))
	r, err := admin.Drain(t.Context(), &lockdv1.DrainRequest{})
	if err != nil || r.GetSessions() != there {
		t.Fatalf("%v, %v; want %d sessions", r, err, there)
	}
	ready(1, http.StatusServiceUnavailable)
	w.awaitNoSessions(1)
	w.must(k.verify())
	if r, err := admin.Undrain(t.Context(), &lockdv1.UndrainRequest{}); err != nil || !r.GetDrained() {
		t.Errorf("%v, %v", r, err)
	}
	ready(1, http.StatusOK)

	w.replicas[2].Signal(syscall.SIGTERM)
	if code := w.replicas[2].Code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if w.replicas[2].Logged("not all sessions moved; ending them") != nil {
		t.Error("the window ended before all had moved")
	}
	w.must(k.verify(), k.give())
	w.noneLost()
	if w.replicas[2].Logged("a session ended with locks held") != nil {
		t.Error("what moved is told as lost")
	}
}

// Clients that were all at one replica spread, because their streams become old.
func TestSessionsSpreadOverReplicas(t *testing.T) {
	t.Parallel()
	w := newFleet(t, 30*time.Second, oneRedis, "LOCKD_SESSION_MAX_STREAM_AGE=1s")
	k := w.keepers(12)
	harness.Until(t, "each replica has sessions, and each session has moved", func() bool {
		return !slices.ContainsFunc(w.replicas, func(d *harness.Lockd) bool { return d.Metric("lockd_sessions") == 0 }) &&
			!slices.ContainsFunc(k.each, func(m *member) bool { return len(m.moves()) == 0 })
	})
	w.must(k.verify(), k.give(), w.noneCut())
	w.noneLost()
}
