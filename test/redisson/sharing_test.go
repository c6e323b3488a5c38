package redisson

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// length is how long things fail in a run in which all share locks.
var length = flag.Duration("length", time.Minute, "for how long things fail while all share locks")

const (
	// sharedNames is how many locks all want.
	sharedNames = 3
	// each is how many workers a participant has for each name.
	each = 2
	// brave is the wait of a worker; then it asks again.
	brave = 2 * time.Second
	// sharedTTL is that of sessions, and of Redisson's watchdog.
	sharedTTL = 3 * time.Second
	// leastEvery is how seldom a party may work under a lock. Redisson does about every second.
	leastEvery = 5 * time.Second
)

// claim is a time in which a worker says that it held a lock. It begins when the grant was heard, and ends when the
// last question was asked to which the answer was that the lock is held: so it lies within the hold, however long the
// answers took, and whether or not a process stood still. Without such an answer there is no claim: a grant may be
// heard when it has ended.
type claim struct {
	who        string // which worker of which party
	again      bool   // it may be the hold that the worker had before
	fence      uint64
	start, end time.Time
}

// party is one of those that share locks.
type party interface {
	// lock waits for a lock for a while. ok says whether it is held.
	lock(name string, worker int) (fence uint64, ok bool, err error)
	// holds asks whether it is.
	holds(name string, worker int) bool
	// unlock releases it as far as it is held.
	unlock(name string, worker int)
}

// shared is what becomes of locks that all want.
type shared struct {
	mu     sync.Mutex                // guards the fields below
	claims map[string][]claim        // by name
	told   map[string]map[string]int // what happened, by who
}

func (s *shared) note(who, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[who] == nil {
		s.told[who] = make(map[string]int)
	}
	s.told[who][what]++
}

// section has a worker work under a lock, if it gets it. One that is careless works on although its lock is lost.
func (s *shared) section(who string, p party, name string, worker int, careless bool) {
	fence, ok, err := p.lock(name, worker)
	switch {
	case err != nil:
		s.note(who, "no lock: "+err.Error())
		time.Sleep(100 * time.Millisecond)
		return
	case !ok:
		s.note(who, "waited in vain")
		return
	}
	_, again := p.(*redissonParty)
	c := claim{who: fmt.Sprint(who, " ", worker), again: again, fence: fence, start: time.Now()}
	c.end = c.start
	rounds, longest := 1+rand.IntN(4), time.Millisecond<<rand.IntN(9) //nolint:gosec // no secret
	if rand.IntN(30) == 0 {                                           //nolint:gosec // no secret
		rounds, longest = 10, sharedTTL/4 // so long that something fails meanwhile
	}
	for range rounds {
		time.Sleep(rand.N(longest)) //nolint:gosec // no secret
		asked := time.Now()
		if !p.holds(name, worker) && !careless {
			s.note(who, "lost")
			break
		}
		c.end = asked
	}
	if careless {
		c.end = time.Now() // it writes what it was about to write
	}
	p.unlock(name, worker)
	if c.end.Equal(c.start) {
		return
	}
	s.note(who, "sections")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[name] = append(s.claims[name], c)
}

// overlaps are pairs of claims of a name that are not apart, or whose fences do not rise.
func (s *shared) overlaps() (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, all := range s.claims {
		slices.SortFunc(all, func(a, b claim) int { return a.start.Compare(b.start) })
		last := claim{}
		for _, c := range all {
			switch {
			case c.start.Before(last.end):
				found = append(found, fmt.Sprintf(
					"%s: %s with the fence %d had it for %v from %v before the end of %s with the fence %d, which had it for %v",
					name, c.who, c.fence, c.end.Sub(c.start), last.end.Sub(c.start), last.who, last.fence, last.end.Sub(last.start)))
			case c.again && c.who == last.who && c.fence == last.fence:
			case c.fence <= last.fence:
				found = append(found, fmt.Sprintf("%s: %s has the fence %d after %s had %d", name, c.who, c.fence, last.who,
					last.fence))
			}
			if c.end.After(last.end) {
				last = c
			}
		}
	}
	return found
}

// share has all parties want the same locks while things fail. The careless one does not care for losses; then it is
// enough to have found that once.
func (w *sharers) share(d time.Duration, careless string, fail func()) *shared {
	w.t.Helper()
	s := &shared{claims: make(map[string][]claim), told: make(map[string]map[string]int)}
	over := make(chan struct{})
	var workers sync.WaitGroup
	for who, p := range w.parties {
		for i := range sharedNames * each {
			workers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						s.section(who, p, fmt.Sprint("shared-", i%sharedNames), i, who == careless)
					}
				}
			})
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end) && (careless == "" || len(s.overlaps()) == 0); {
		time.Sleep(rand.N(sharedTTL / 2)) //nolint:gosec // no secret
		fail()
	}
	close(over)
	workers.Wait()
	return s
}

// The SDKs of Java and Python, and Redisson, use the same locks while replicas of lockd are killed, connections break
// and processes stand still: no two of them ever hold one at a time, as they are told, and fences rise.
func TestAllShareLocksWhileThingsFail(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	w := newSharers(t)
	s := w.share(*length, "", w.failOnce)
	for _, who := range slices.Sorted(maps.Keys(s.told)) {
		t.Logf("%s: %v", who, s.told[who])
		if n := s.told[who]["sections"]; n < int(*length/leastEvery) {
			t.Errorf("%s had %d sections: the others hardly met it", who, n)
		}
	}
	t.Logf("what failed: %v", w.failed)
	if found := s.overlaps(); len(found) > 0 {
		t.Errorf("%d overlaps, the first: %s", len(found), found[0])
	}
	w.free()
}

// A worker that works on when its lock is lost is found.
func TestWhoDoesNotCareForLossesIsFound(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	w := newSharers(t)
	s := w.share(harness.Patience, "java", func() { w.standStill("java", sharedTTL*3/2) })
	if found := s.overlaps(); len(found) > 0 {
		t.Log(found[0])
	} else {
		t.Error("nobody met a worker that does not care for losses")
	}
}

// free looks whether each lock can be had when nothing fails any more, and nobody holds it.
func (w *sharers) free() {
	w.t.Helper()
	c := w.replicas[0].Dial(w.t)
	for i := range sharedNames {
		name := fmt.Sprint("shared-", i)
		l, err := c.Lock(w.t.Context(), name, client.Wait(10*sharedTTL))
		if err == nil {
			err = l.Unlock(w.t.Context())
		}
		if err == nil {
			_, err = c.TryLock(w.t.Context(), name)
		}
		if err != nil {
			w.t.Error(errors.Join(fmt.Errorf("%s is not free", name), err))
		}
	}
}
