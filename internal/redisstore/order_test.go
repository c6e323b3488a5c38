package redisstore

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
)

// What an owner asks of a name is done in that order, though nobody waits for an answer between: together with others
// as one call, by scripts of their own, or some so and some so.
func TestWhatAnOwnerAsksOfANameIsDoneInThatOrder(t *testing.T) {
	t.Parallel()
	s, g, _ := gated(t)
	others := func() []*request { return []*request{acquiring("x", "x"), releasing("x", "x", 0)} }
	for _, kind := range kinds {
		for _, isOdd := range []bool{false, true} { // the acquisition then goes by its own script
			c, r := usual(kind, "n", "o"), kindReturn(kind, "n", "o", 0)
			switch {
			case kind == lock.Semaphore:
				r.Permits = 1
			case kind == lock.Read && isOdd:
				c.WriteOwner = whole("w")
			}
			take, give, again := &request{claim: &c}, &request{back: &r}, &request{claim: &c}
			goTogether(t, s, g, storetest.Deliver, append(others(), take, give, again)...)
			for i, q := range []*request{take, give, again} {
				if q.err != nil {
					t.Errorf("%v, odd %v: request %d: %v", kind, isOdd, i, q.err)
				}
			}
			wantHeld(t, s, "n", true)
			goTogether(t, s, g, storetest.Deliver, append(others(), give, again, give)...)
			wantHeld(t, s, "n", false)
		}
	}
}
