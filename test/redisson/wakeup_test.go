package redisson

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// wakeWithin is how soon who waits on one side has what the other side released.
const wakeWithin = 100 * time.Millisecond

func TestReleasesWakeTheOtherSide(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for _, p := range pairs {
		t.Run(p.String(), func(t *testing.T) {
			s := newStage(t, long)
			s.prepare(p.holder, "job")
			w := &wakeups{s: s, pair: p, client: s.lockd.Dial(s.t), worker: s.redisson.worker("waiter"), others: s.load()}
			for range rounds {
				w.others.Begin()
				w.fromLockd()
				w.others.Begin()
				w.fromRedisson()
			}
			t.Logf("Redisson had what lockd released after %v; lockd what Redisson released after %v", spread(w.toRedisson),
				spread(w.toLockd))
		})
	}
}

// wakeups measures from a release to the grant.
type wakeups struct {
	s                   *stage
	pair                pair
	client              *client.Client
	worker              *worker
	others              *proctest.Load
	toRedisson, toLockd []time.Duration
}

// hesitate lets the other one begin to wait. It may also be too short for that: then the release comes in the middle.
func hesitate() { time.Sleep(time.Duration(rand.Int64N(int64(8 * time.Millisecond)))) }

func (w *wakeups) fromLockd() {
	w.s.t.Helper()
	l := w.s.lock(w.client, w.pair.holder, "job")
	c := w.worker.tell("acquire", w.pair.waiter.name, "job", 0)
	hesitate()
	if c.answered() {
		w.s.t.Fatalf("Redisson got what lockd holds: %v", c.err)
	}
	released := time.Now()
	w.s.unlock(l)
	c.must()
	w.toRedisson = append(w.toRedisson, w.judge("Redisson", c.at.Sub(released)))
	w.worker.ask("release", w.pair.waiter.name, "job")
}

func (w *wakeups) fromRedisson() {
	w.s.t.Helper()
	w.worker.ask("acquire", w.pair.holder.name, "job", 0)
	waiter := w.s.wait(w.client, w.pair.waiter, "job")
	hesitate()
	select {
	case g := <-waiter:
		w.s.t.Fatalf("lockd granted what Redisson holds: %v", g.err)
	default:
	}
	released := time.Now()
	w.worker.ask("release", w.pair.holder.name, "job")
	g := harness.Soon(w.s.t, "lockd grants", waiter)
	if g.err != nil {
		w.s.t.Fatal(g.err)
	}
	w.toLockd = append(w.toLockd, w.judge("lockd", g.at.Sub(released)))
	w.s.unlock(g.lock)
}

func (w *wakeups) judge(who string, took time.Duration) time.Duration {
	w.s.t.Helper()
	if took > wakeWithin {
		if net := w.others.Off(took); net > wakeWithin {
			w.s.t.Errorf("%s had it after %v, of which %v was not the machine's; want %v at most", who, took, net, wakeWithin)
		}
	}
	return took
}

// spread tells the middle and the worst of some durations.
func spread(ds []time.Duration) string {
	slices.Sort(ds)
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("%v, %v at most", round(ds[len(ds)/2]), round(ds[len(ds)-1]))
}
