package watchdog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// TestARoundMissesNoLeaseWhateverComesAndGoes takes and drops leases while a round is under way: each that is there all
// the while is renewed in it.
func TestARoundMissesNoLeaseWhateverComesAndGoes(t *testing.T) {
	for seed := range tier.Pick[uint64](3, 10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWatchdog(t)
			c := newCrew(30 * time.Second)
			held := c.take(w, 1000)
			time.Sleep(9 * time.Second)
			before := slices.Clone(held)
			began := time.Now()
			c.hear(w)
			for range 100 {
				time.Sleep(30 * time.Millisecond)
				for range r.IntN(30) {
					if i := r.IntN(len(held)); r.IntN(2) == 0 {
						w.Drop(held[i])
						held = slices.Delete(held, i, i+1)
					} else {
						held = append(held, c.take(w, 1)...)
					}
				}
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			for _, l := range before {
				if slices.Contains(held, l) && (len(l.renewed) == 0 || l.renewed[0].Before(began)) {
					t.Fatalf("seed %d: a lease was not renewed in a tenth of the TTL after a sign of life", seed)
				}
			}
			for _, l := range held {
				w.Drop(l)
			}
			for i := range w.shards {
				if n := w.shards[i].near.Len(); n > 0 {
					t.Errorf("%d plans for no leases", n)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if left := w.left(); left != "" || c.note.Load() != 0 {
				t.Errorf("left: %s, group %d", left, c.note.Load())
			}
		})
	}
}

// TestASignOfLifeEveryIntervalRenewsOnce has clients be heard a little earlier or later than every interval.
func TestASignOfLifeEveryIntervalRenewsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(t)
		r := rand.New(rand.NewPCG(1, 1))
		c := newCrew(30 * time.Second)
		l := c.take(w, 1)[0]
		const rounds = 1000
		begin := time.Now()
		for i := range rounds {
			jitter := time.Duration(r.IntN(40)-20) * time.Millisecond
			time.Sleep(time.Until(begin.Add(time.Duration(i+1)*l.Interval() + jitter)))
			c.hear(w)
		}
		synctest.Wait()
		if n := len(l.renewed); n < rounds || n > rounds+1 {
			t.Errorf("renewed %d times in %d intervals", n, rounds)
		}
		w.Drop(l)
	})
}

// TestASilentClientsLeasesAreRenewedAtEveryInterval expects no signs of life.
func TestASilentClientsLeasesAreRenewedAtEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(t)
		c := newCrew(30 * time.Second)
		l := &fake{crew: c, until: time.Now().Add(c.ttl)}
		begin := time.Now()
		w.Keep(l, l.until)
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if want := []time.Time{begin.Add(10 * time.Second), begin.Add(20 * time.Second)}; !slices.EqualFunc(l.renewed, want,
			time.Time.Equal) {
			t.Errorf("renewed at %v, want %v", l.renewed, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if want := begin.Add(30 * time.Second); !l.lost.Equal(want) {
			t.Errorf("lost at %v, want %v", l.lost, want)
		}
	})
}

// BenchmarkSignOfLife costs the same for any number of leases.
func BenchmarkSignOfLife(b *testing.B) {
	for _, leases := range []int{10, 200_000} {
		w := newWatchdog(b)
		c := newCrew(time.Hour)
		c.take(w, leases)
		b.Run(fmt.Sprint("leases=", leases), func(b *testing.B) {
			for b.Loop() {
				w.Heard(&c.note)
			}
		})
	}
}

// TestAMillionHurriedLeasesAreNotSentAtOnce hurries more leases than the store should get at a time: no more calls are
// under way than a few, and all leases are renewed as the store answers.
func TestAMillionHurriedLeasesAreNotSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{each: 100 * time.Millisecond}
		w := watching(t, store)
		c := newCrew(10 * time.Minute)
		c.like = lock.Renewal{Kind: lock.Semaphore, Permits: 20}
		ls := c.take(w, 1000)
		time.Sleep(time.Second)
		for _, l := range ls {
			w.Hurry(l)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i, l := range ls {
			if len(l.renewed) != 1 {
				t.Fatalf("lease %d was renewed %d times, want 1", i, len(l.renewed))
			}
		}
		if n := store.most; n > maxHurried {
			t.Errorf("%d calls were under way at once", n)
		}
		if slices.ContainsFunc(store.fail(nil), func(c call) bool { return c.n > maxBatch }) {
			t.Error("a call costs more than it may")
		}
	})
}

// TestRenewalsThatFailAreNotAllTriedAgainAtOnce has a store that answers nothing: besides the rounds only a few calls
// are under way, and as many that verify, and the leases end in time.
func TestRenewalsThatFailAreNotAllTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{each: time.Second, err: lock.ErrUnavailable}
		w := watching(t, store)
		c := newCrew(30 * time.Second)
		end := time.Now().Add(c.ttl)
		ls := c.take(w, 8000)
		for range 20_000 {
			w.Keep(&fake{crew: c, alone: true, until: end.Add(time.Hour)}, end.Add(time.Hour))
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		for i, l := range ls {
			if !l.lost.Equal(end) {
				t.Fatalf("lease %d ended %v after its validity", i, l.lost.Sub(end))
			}
		}
		// A round has a call each 3 s / 20, each of which takes a second.
		if n := store.most; n > 2*maxHurried+8 {
			t.Errorf("%d calls were under way at once", n)
		}
	})
}

// TestHurryCountsFromItsCallOn hurries a lease that is just about to be renewed anyway: what is to be known afterwards
// is not known from a renewal that counts as begun before.
func TestHurryCountsFromItsCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(t)
		c := newCrew(30 * time.Second)
		l := &fake{crew: c, until: time.Now().Add(c.ttl)}
		var hurried time.Time
		l.asked = func() {
			if hurried.IsZero() {
				time.Sleep(time.Millisecond) // others have the mutex of the leases
				hurried = time.Now()
				w.Hurry(l)
			}
		}
		w.Keep(l, l.until)
		time.Sleep(l.Interval() + time.Second)
		synctest.Wait()
		if n := len(l.renewed); n == 0 || l.renewed[n-1].Before(hurried) {
			t.Errorf("renewed at %v, but hurried at %v", l.renewed, hurried)
		}
		w.Drop(l)
	})
}

// TestRenewalsCostWhatIsDueAndNotWhatIsHeld counts how often a lease, or the loop, is looked at while very many leases
// are held, alone and in a group, and few are due.
func TestRenewalsCostWhatIsDueAndNotWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(t)
		idle := newCrew(10 * time.Hour)
		ls := idle.take(w, 50_000)
		for i, l := range ls {
			if i%2 == 0 {
				l.alone = true
				w.Keep(l, l.until)
			}
		}
		const few, beats = 10, 100
		c := newCrew(30 * time.Second)
		c.take(w, few)
		for range beats {
			time.Sleep(c.ttl / 3)
			c.hear(w)
		}
		synctest.Wait()
		if n := idle.asks.Load() + c.asks.Load(); n < few*beats || n > 2*few*beats {
			t.Errorf("leases were asked %d times what they need, want about %d", n, few*beats)
		}
		w.Close()
		if w.first > 10*beats {
			t.Errorf("the loop looked %d times after %d signs of life", w.first, beats)
		}
	})
}
