package faultrun

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/faultrun/history"
)

// Replicas are killed, stopped and restarted at random while clients use locks, and others hold some all the while.
// Nobody loses a lock: there is always a replica to go on at.
func TestReplicasFailAtRandom(t *testing.T) {
	lasts := *length
	if lasts == 0 {
		lasts = 6 * time.Second
	}
	ttl := 8 * time.Second
	if *length > 0 {
		ttl = 20 * time.Second // whatever else the machine has to do
	}
	onEachStore(t, ttl, func(f *fleet, _ store) {
		f.t.Logf("seed %d", *seed)
		k := keep(f, 10)
		crowd := begin(f.t.Context(), f.players())
		r, what := random(0), map[string]int{}
		for f.rec.now() < lasts {
			time.Sleep(upTo(r, time.Second))
			what[f.fail(r)]++
		}
		if err := crowd.end(2 * f.ttl); err != nil {
			f.t.Errorf("after the last fault: %v", err)
		}
		f.must(k.verify(), k.give())
		n, slowest := f.moves()
		f.t.Logf("what failed: %v; %d moves, the slowest %v", what, n, slowest)
		for _, h := range f.rec.holds {
			if h.how == history.Lost || h.how == history.NotHeld {
				f.t.Errorf("lost: %v", h)
			}
		}
		f.noneLost()
	})
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// fail has one replica fail in one of the ways, and serve again. It says in which way.
func (f *fleet) fail(r *rand.Rand) string {
	f.t.Helper()
	i := r.IntN(len(f.replicas))
	switch r.IntN(4) {
	case 0:
		if _, err := f.restart(i); err != nil {
			f.t.Error(err)
		}
		return "a restart"
	case 1:
		f.replicas[i].Signal(syscall.SIGSTOP)
		time.Sleep(upTo(r, 4*time.Second))
		f.replicas[i].Signal(syscall.SIGCONT)
		return "a standstill"
	default:
		f.replicas[i].Kill()
		time.Sleep(upTo(r, 2*time.Second))
		f.start(i)
		return "a kill"
	}
}

// players use a few names at random, with leases that are renewed.
func (f *fleet) players() []*player {
	var all []*player
	for i := range clients {
		m := f.dial(fmt.Sprint("client ", i), i%len(f.at))
		all = append(all, &player{
			id: m.id, locks: sdk{m}, rand: random(uint64(i + 1)), rec: f.rec,
			names: []string{"job 0", "job 1", "job 2", "job 3"},
			holds: 20 * time.Millisecond, waits: 2 * time.Second, late: 1,
		})
	}
	return all
}
