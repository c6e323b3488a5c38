package broker_test

import (
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// crowded counts what the holds of a shared name may take at each moment, as far as their clients can know: from the
// request until the answer to the release. A try was refused without a reason if at each moment of it there was room
// for all these holds, all who wait, and the try itself.
type crowded struct {
	mu       sync.Mutex // guards the fields below
	out      int        // asked for or held
	waits    int        // requests that may wait
	now      int        // counts changes
	hindered int        // the last change without room afterwards, or with somebody who may wait
	wrong    []string
	grants   int
}

const crowdedLimit = 12

// add notes permits that may be out from now on, or are surely not any more. It returns the number of the change.
func (c *crowded) add(permits, waits int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.out += permits
	c.waits += waits
	if c.out > crowdedLimit || c.waits > 0 {
		c.hindered = c.now
	}
	return c.now
}

// end judges a try that began with a change.
func (c *crowded) end(begun int, granted bool, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case granted:
		c.grants++
	case c.hindered < begun:
		c.wrong = append(c.wrong, who+" was refused although there was room")
	}
}

// stingy makes the store refuse now and then what it has room for: the planted bug.
func (w *world) stingy(seed uint64) {
	var mu sync.Mutex
	rng := mrand.New(mrand.NewPCG(seed, 0)) //nolint:gosec // a test
	w.store.on("Acquire", func(next func() error) error {
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(100) == 0 {
			return &lock.HeldError{}
		}
		return next()
	})
}

// runCrowd has clients take and release permits at random, on a store with no faults, and tells which tries were
// refused for no reason.
func runCrowd(t *testing.T, seed uint64, plant bool) (grants int, wrong []string) {
	inWorld(t, func(w *world) {
		w.far()
		if plant {
			w.stingy(seed)
		}
		c := new(crowded)
		var wg sync.WaitGroup
		for i := range 8 {
			rng := mrand.New(mrand.NewPCG(seed, uint64(1+i))) //nolint:gosec // a test
			s := w.alive()
			wg.Go(func() {
				for n := range 300 {
					s.useCrowd(c, rng, fmt.Sprintf("client %d.%d", i, n))
				}
			})
		}
		wg.Wait()
		grants, wrong = c.grants, c.wrong
	})
	return grants, wrong
}

// useCrowd asks once and releases what it gets.
func (c *client) useCrowd(crowd *crowded, rng *mrand.Rand, who string) {
	time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond))))
	req := request.Acquire{Name: "pool", Kind: lock.Semaphore, Limit: crowdedLimit, Permits: uint32(1 + rng.IntN(3))}
	permits, id := int(req.Permits), c.id()
	if rng.IntN(8) == 0 { // waits
		crowd.add(permits, 1)
		c.Acquire(id, req)
		h := c.awaitGrant().Hold
		crowd.add(0, -1)
		c.leaveCrowd(crowd, h, permits, rng)
		return
	}
	req.Wait = new(time.Duration)
	begun := crowd.add(permits, 0)
	c.Acquire(id, req)
	g, granted := c.await().(session.Granted)
	if crowd.end(begun, granted, who); granted {
		c.leaveCrowd(crowd, g.Hold, permits, rng)
	} else {
		crowd.add(-permits, 0)
	}
}

// leaveCrowd holds for a while, and releases.
func (c *client) leaveCrowd(crowd *crowded, h session.Hold, permits int, rng *mrand.Rand) {
	time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
	c.releaseAll(h)
	crowd.add(-permits, 0)
}

// TestNoTryIsRefusedWithoutAReason lets tries and waits of several sizes meet at random.
func TestNoTryIsRefusedWithoutAReason(t *testing.T) {
	for _, seed := range seeds(1, 2, 3) {
		grants, wrong := runCrowd(t, seed, false)
		for _, s := range wrong[:min(len(wrong), 3)] {
			t.Errorf("seed %d: %s", seed, s)
		}
		if t.Logf("%d tries are granted", grants); grants < 300 {
			t.Errorf("%d tries are granted only: this shows nothing", grants)
		}
	}
}

// TestARefusalWithoutAReasonWouldBeNoticed is the control.
func TestARefusalWithoutAReasonWouldBeNoticed(t *testing.T) {
	if _, wrong := runCrowd(t, 5, true); len(wrong) == 0 {
		t.Error("nobody noticed it")
	}
}
