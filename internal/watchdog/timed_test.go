package watchdog

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestEachLeaseEndsWithItsValidity has leases that last for some milliseconds, or for hours, and some whose validity
// changes.
func TestEachLeaseEndsWithItsValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(t)
		r := rand.New(rand.NewPCG(1, 1))
		c := newCrew(10 * time.Minute)
		later := func() time.Time {
			scale := []time.Duration{time.Second, time.Minute, 3 * time.Hour}[r.IntN(3)]
			return time.Now().Add(time.Millisecond + time.Duration(r.Int64N(int64(scale))))
		}
		var ls []*fake
		for range 700 {
			l := &fake{crew: c, alone: true, until: later()}
			ls = append(ls, l)
			w.Keep(l, l.until)
			time.Sleep(time.Millisecond)
		}
		for range 350 {
			l := ls[r.IntN(len(ls))]
			c.mu.Lock()
			over := !l.lost.IsZero()
			if !over {
				l.until = later()
			}
			until := l.until
			c.mu.Unlock()
			if !over {
				w.Keep(l, until)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		for i, l := range ls {
			if !l.lost.Equal(l.until) {
				t.Errorf("lease %d ended %v after its validity", i, l.lost.Sub(l.until))
			}
		}
	})
}
