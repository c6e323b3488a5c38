package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// takeKind acquires a free lock of a kind.
func (c *client) takeKind(name string, k lock.Kind) session.Granted {
	c.t.Helper()
	return c.takeAs(request.Acquire{Name: name, Kind: k})
}

// takeAs makes a request that is granted at once.
func (c *client) takeAs(req request.Acquire) session.Granted {
	c.t.Helper()
	c.acquire(req)
	return one[session.Granted](c)
}

// queueAs makes a request that has to wait, and returns its id and the position it is told.
func (c *client) queueAs(req request.Acquire) (id uint64, position int) {
	c.t.Helper()
	id = c.acquire(req)
	return id, one[session.Queued](c).Position
}

// grantedWithin waits for the only event, for at most d, which must be a grant.
func (c *client) grantedWithin(d time.Duration) session.Granted {
	c.t.Helper()
	begin := time.Now()
	for {
		events := c.events()
		for _, e := range events {
			if g, ok := e.(session.Granted); ok {
				return g
			}
			if _, ok := e.(session.Queued); !ok {
				c.t.Fatalf("got %#v, want a grant", e)
			}
		}
		if time.Since(begin) >= d {
			c.t.Fatalf("not granted within %v", d)
		}
		time.Sleep(time.Millisecond)
	}
}

var allKinds = lock.Kinds()

// of is a request for a name of a kind; a semaphore has one permit.
func of(name string, k lock.Kind) request.Acquire {
	req := request.Acquire{Name: name, Kind: k}
	if k == lock.Semaphore {
		req.Limit = 1
	}
	return req
}

// permits is a request for permits of a semaphore.
func permits(n, limit uint32) request.Acquire {
	return request.Acquire{Name: "pool", Kind: lock.Semaphore, Permits: n, Limit: limit}
}

func eachKind(t *testing.T, kinds []lock.Kind, test func(w *world, k lock.Kind)) {
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) { inWorld(t, func(w *world) { test(w, k) }) })
	}
}

// alone are the kinds that have one holder at a time; a semaphore with one permit is like them.
var alone = []lock.Kind{lock.Exclusive, lock.Fair, lock.Write, lock.Semaphore}

func TestUncontendedAcquireAndReleaseAreOneCallEach(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c := w.alive()
		g := c.takeAs(of("job", k))
		c.release(g.Hold)
		if a, r := w.store.acquires.Load(), w.store.releases.Load(); a != 1 || r != 1 {
			t.Errorf("got %d acquires and %d releases, want one each", a, r)
		}
	})
}

// TestOwnerOfEveryHoldCanBeToldFromItsGrant computes what the store knows a hold by from what its client was told.
func TestOwnerOfEveryHoldCanBeToldFromItsGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		for _, req := range []request.Acquire{
			of("x", lock.Exclusive), holder("y", lock.Exclusive), of("f", lock.Fair), holder("r", lock.Read),
			asHolder(allOf(lock.Write, "m", "n")), allOf(lock.Exclusive, "o", "p"),
		} {
			g := c.takeAs(req)
			for _, h := range append(g.More, g.Hold) {
				name := h.Holder
				if strings.HasPrefix(name, "#") {
					name = ""
				}
				want := lock.Owner(fmt.Sprintf("%s:%s#%d", c.ID(), name, h.AcquiredBy))
				if st := w.look(h.Name); st.Owner != want || h.AcquiredBy == 0 {
					t.Errorf("%q is held by %q, want %q", h.Name, st.Owner, want)
				}
			}
		}
		// A second hold is known by the first request.
		first := c.takeAs(holder("again", lock.Exclusive))
		if again := c.takeAs(holder("again", lock.Exclusive)); again.Hold != first.Hold || again.ID == first.ID {
			t.Errorf("got %+v after %+v, want the same hold", again, first)
		}
	})
}
