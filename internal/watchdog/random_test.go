package watchdog

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// unsure is a store that is slow, and fails now and then.
type unsure struct {
	lock.Holds
	mu   sync.Mutex // guards r
	r    *rand.Rand
	slow time.Duration
}

func (s *unsure) chance() (pause time.Duration, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.r.Int64N(int64(s.slow))), s.r.IntN(10) == 0
}

func (s *unsure) Renew(_ context.Context, rs []lock.Renewal, done func(int, error)) {
	pause, fails := s.chance()
	for i := range rs {
		if i%100 == 0 {
			time.Sleep(pause)
			pause, fails = s.chance()
		}
		if fails {
			done(i, lock.ErrUnavailable)
		} else {
			done(i, nil)
		}
	}
}

// TestWhateverHappensToItALeaseEndsWithItsValidity has leases taken, dropped, extended, shortened, hurried, and made
// auto and fixed, on a store that is slow and fails now and then. A client that is heard loses none, and the lease of
// one that is not ends with its validity, to the instant.
func TestWhateverHappensToItALeaseEndsWithItsValidity(t *testing.T) {
	for seed := range tier.Pick[uint64](3, 20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			ttl := []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute}[seed%3]
			s := &unsure{r: rand.New(rand.NewPCG(seed, 2)), slow: ttl / 40}
			w := watching(t, s)
			var crews []*crowd
			for range 1 + r.IntN(20) {
				crews = append(crews, &crowd{w: w, r: r, c: newCrew(ttl)})
			}
			many := []int{1, 30, 3000}[r.IntN(3)]
			for range tier.Pick(150, 400) {
				for i, c := range crews {
					if c.turn(t, many/len(crews)+1); t.Failed() {
						t.Fatalf("seed %d, client %d", seed, i)
					}
				}
				time.Sleep(time.Duration(r.Int64N(int64(ttl / 20))))
			}
			for _, c := range crews { // no one is heard any more
				c.settle(t, true)
			}
			time.Sleep(30 * ttl)
			for _, c := range crews {
				c.settle(t, false)
				if c.c.note.Load() != 0 {
					t.Error("a group is left")
				}
			}
			if left := w.left(); left != "" {
				t.Error("left: " + left)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// crowd does things to the leases of a client.
type crowd struct {
	w     *Watchdog[*fake]
	r     *rand.Rand
	c     *crew
	ls    []*fake
	heard time.Time
}

func (c *crowd) turn(t *testing.T, most int) {
	t.Helper()
	now := time.Now()
	if time.Since(c.c.heard) > c.c.ttl/5 {
		c.c.mu.Lock()
		c.c.heard = now
		c.c.mu.Unlock()
		if time.Since(c.heard) > c.c.ttl/4 { // as a session does
			c.heard = now
			c.w.Heard(&c.c.note)
		}
	}
	c.settle(t, true)
	for range c.r.IntN(20) {
		if i := c.r.IntN(most); i < len(c.ls) {
			c.change(i)
		} else {
			l := &fake{crew: c.c, alone: c.r.IntN(3) == 0, until: now.Add(c.c.ttl)}
			if l.alone {
				l.until = c.any()
			}
			c.w.Keep(l, l.until)
			c.ls = append(c.ls, l)
		}
	}
}

func (c *crowd) any() time.Time {
	scale := []time.Duration{c.c.ttl / 3, c.c.ttl, 20 * c.c.ttl}[c.r.IntN(3)]
	return time.Now().Add(time.Millisecond + time.Duration(c.r.Int64N(int64(scale))))
}

func (c *crowd) change(i int) {
	l := c.ls[i]
	c.c.mu.Lock()
	over := !l.lost.IsZero() || !l.until.After(time.Now())
	n := c.r.IntN(10)
	switch {
	case over:
	case n < 2: // is dropped
	case n < 5 && l.alone: // extended or shortened
		l.until = c.any()
	case n < 7: // made auto or fixed by a call of the store
		if l.alone = !l.alone; l.alone {
			l.until = c.any()
		} else {
			l.until = l.heard.Add(l.ttl)
		}
	}
	until := l.until
	c.c.mu.Unlock()
	switch {
	case over:
	case n < 2:
		c.w.Drop(l)
		c.ls[i] = c.ls[len(c.ls)-1]
		c.ls = c.ls[:len(c.ls)-1]
	case n < 7:
		c.w.Keep(l, until)
	case n < 8:
		c.w.Hurry(l)
	}
}

// settle looks at which leases are lost, and forgets them.
func (c *crowd) settle(t *testing.T, alive bool) {
	t.Helper()
	synctest.Wait()
	c.c.mu.Lock()
	defer c.c.mu.Unlock()
	kept := c.ls[:0]
	for _, l := range c.ls {
		switch {
		case l.lost.IsZero() && !l.until.After(time.Now()):
			t.Errorf("a lease was not ended for %v", time.Since(l.until))
		case l.lost.IsZero():
			kept = append(kept, l)
		case !l.lost.Equal(l.until):
			t.Errorf("a lease ended %v after its validity", l.lost.Sub(l.until))
		case alive && !l.alone:
			t.Errorf("an auto lease was lost, renewed %v ago", time.Since(l.renewed[max(len(l.renewed)-1, 0)]))
		}
	}
	c.ls = kept
}
