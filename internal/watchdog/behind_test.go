package watchdog

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// narrow is a store that renews one call after the other, each in a time that depends on how much it renews.
type narrow struct {
	lock.Holds
	turn  chan struct{} // size 1
	each  atomic.Int64  // ns for a lease
	under atomic.Int64  // leases in calls
	most  atomic.Int64  // of those
}

func newNarrow(each time.Duration) *narrow {
	s := &narrow{turn: make(chan struct{}, 1)}
	s.each.Store(int64(each))
	return s
}

func (s *narrow) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	n := int64(len(rs))
	s.most.Store(max(s.most.Load(), s.under.Add(n)))
	s.turn <- struct{}{}
	time.Sleep(time.Duration(s.each.Load() * n))
	<-s.turn
	s.under.Add(-n)
	renewer{}.Renew(ctx, rs, done)
}

// crowded is a client with many leases on a slow store.
func crowded(t *testing.T, s lock.Holds, n int) (w *Watchdog[*fake], c *crew, ls []*fake) {
	w = watching(t, s)
	c = newCrew(30 * time.Second)
	return w, c, c.take(w, n)
}

// TestARoundThatIsSlowerThanSignsOfLifeLeavesNoLeaseOut has a client be heard much more often than all of its leases
// can be renewed. The store can renew each of them more often than in every half of the TTL, so none may be lost.
func TestARoundThatIsSlowerThanSignsOfLifeLeavesNoLeaseOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 12_000
		s := newNarrow(12 * time.Second / leases)
		w, c, ls := crowded(t, s, leases)
		for range tier.Pick(10, 40) {
			time.Sleep(7500 * time.Millisecond)
			c.hear(w)
		}
		if n := lost(ls); n > 0 {
			t.Errorf("%d leases of %d were lost", n, leases)
		}
		if n := s.most.Load(); n > maxUnderWay+2*maxBatch {
			t.Errorf("%d leases were under way at once", n)
		}
	})
}

// TestItIsKnownHowLateRenewalsAre has a store that cannot do all for a while, and then can.
func TestItIsKnownHowLateRenewalsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNarrow(time.Microsecond)
		w, c, _ := crowded(t, s, 20_000)
		most := func(d time.Duration) (most time.Duration) {
			for range 10 {
				time.Sleep(d / 10)
				most = max(most, w.Late())
			}
			return most
		}
		time.Sleep(10 * time.Second)
		c.hear(w)
		if late := most(9 * time.Second); late > 50*time.Millisecond {
			t.Errorf("late by %v although the store is quick", late)
		}
		s.each.Store(int64(400 * time.Microsecond)) // 8 s for a round
		time.Sleep(time.Second)
		c.hear(w)
		if late := most(9 * time.Second); late < time.Second {
			t.Errorf("late by %v although the store is slow", late)
		}
		s.each.Store(int64(time.Microsecond))
		time.Sleep(time.Second)
		c.hear(w)
		time.Sleep(time.Second)
		if late := most(9 * time.Second); late > 50*time.Millisecond {
			t.Errorf("late by %v although the store is quick again", late)
		}
	})
}

// Nothing is kept, so nothing is late, also for who asks while somebody else looks.
func TestNothingIsLateWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, renewer{})
		time.Sleep(time.Second)
		last := &w.shards[len(w.shards)-1]
		last.mu.Lock() // time stands still while somebody waits for it
		var other sync.WaitGroup
		other.Go(func() { w.Late() })
		for w.looked.Load() < 0 {
			runtime.Gosched()
		}
		if late := w.Late(); late > 0 {
			t.Errorf("late by %v with no lease at all", late)
		}
		last.mu.Unlock()
		other.Wait()
	})
}

// TestLeasesThatEndDoNotDelayRenewals has very many leases end at once, which their owner takes long to hear. Those of
// another client are renewed all the while.
func TestLeasesThatEndDoNotDelayRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, silent, ls := crowded(t, renewer{}, 10_000)
		for _, l := range ls {
			l.told = func() { time.Sleep(10 * time.Millisecond) } // more than a minute for all
		}
		c := newCrew(silent.ttl)
		l := c.take(w, 1)[0]
		for range 20 {
			time.Sleep(c.ttl / 3)
			c.hear(w)
		}
		synctest.Wait()
		if renewed, at := l.seen(); !at.IsZero() || time.Since(renewed[len(renewed)-1]) > c.ttl/3 {
			t.Errorf("a lease was lost at %v, renewed %d times", at, len(renewed))
		}
		time.Sleep(4 * time.Minute)
		if n := lost(ls); n < len(ls) {
			t.Errorf("%d leases have not ended", len(ls)-n)
		}
	})
}

// TestAllClientsHaveTheirShareOfASlowStore has many clients, all heard at the same times, on a store that cannot renew
// as often as they are heard: none of them is renewed less often than others.
func TestAllClientsHaveTheirShareOfASlowStore(t *testing.T) {
	tier.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const clients, each = 64, 700
		s := newNarrow(12 * time.Second / clients / each)
		w := watching(t, s)
		crews, first := make([]*crew, clients), make([]*fake, clients)
		for i := range crews {
			crews[i] = newCrew(30 * time.Second)
			first[i] = crews[i].take(w, each)[0]
		}
		for range 40 {
			time.Sleep(7500 * time.Millisecond)
			for _, c := range crews {
				c.hear(w)
			}
		}
		synctest.Wait()
		least, most := math.MaxInt, 0
		for i, l := range first {
			renewed, at := l.seen()
			if !at.IsZero() {
				t.Errorf("client %d lost a lease", i)
			}
			least, most = min(least, len(renewed)), max(most, len(renewed))
		}
		if t.Logf("renewed %d to %d times", least, most); least < 22 || most > least+3 {
			t.Errorf("some were renewed %d times and others %d, want about 25", least, most)
		}
	})
}

// halting is a store of two servers, each of which has every other hold. One of them answers after a second.
// Verifications go another way, and fail after a second.
type halting struct{ lock.Holds }

func (halting) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	for i := 0; i < len(rs); i += 2 {
		if rs[i].TTL > 0 {
			done(i, nil)
		}
	}
	time.Sleep(time.Second)
	for i, r := range rs {
		if r.TTL <= 0 {
			done(i, lock.ErrUnavailable)
		} else if i%2 == 1 {
			done(i, nil)
		}
	}
}

// TestNothingSlowDelaysOtherRenewals has so many leases that those of one server alone have room for the time it takes,
// and so many that are verified, without end, that those alone would have none.
func TestNothingSlowDelaysOtherRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 5 * maxUnderWay // 13,000 are to be renewed in a second at times, half of them at the slow server
		w, c, _ := crowded(t, halting{}, leases)
		for i := range 2 * maxUnderWay {
			l := &fake{crew: &crew{ttl: c.ttl}, alone: true, until: time.Now().Add(time.Hour)}
			if w.Keep(l, l.until); i%maxBatch == 0 {
				time.Sleep(700 * time.Millisecond)
			}
		}
		var late time.Duration
		for range 3 {
			c.hear(w)
			for range 95 {
				time.Sleep(100 * time.Millisecond)
				late = max(late, w.Late())
			}
		}
		if late > 100*time.Millisecond {
			t.Errorf("renewals were late by up to %v", late)
		}
	})
}
