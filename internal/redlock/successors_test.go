package redlock

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What the clients of a storm do that wait for a name which another one of the same replica has.

// handOver gives the name to a successor, as a broker does, and returns what that has. The successor may have left
// meanwhile.
func (h *holds) handOver(ctx context.Context) (next *holds) {
	c, successor := h.cs[0], h.cs[0]
	successor.Owner, successor.TTL = h.newOwner(), h.ttl()
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: h.gs[0].Fence}
	cancelled := h.intN(4) == 0
	got := h.waits(successor)
	h.ended(c)
	if got != nil { // the lease had ended
		h.release(h.store, r)
		return got
	}
	start := time.Now()
	r.Next = &lock.Successor{Owner: successor.Owner, TTL: successor.TTL}
	res, err := lock.Await(context.Background(), h.store.StartRelease, r)
	handed := err == nil && res.HandedOver != 0
	switch {
	case cancelled:
		h.count("handoffs to one that had left")
		h.undone(successor, res.HandedOver)
		return nil
	case handed && time.Now().Before(start.Add(successor.TTL)):
		h.count("handoffs")
		return h.successors(successor, lock.Grant{Fence: res.HandedOver}, start)
	}
	if next = h.get(ctx, h.store, []lock.Claim{successor}); next == nil && handed {
		h.release(h.store, lock.Return{Name: successor.Name, Kind: successor.Kind, Owner: successor.Owner})
	}
	return next
}

// successors is what a successor has.
func (h *holds) successors(successor lock.Claim, g lock.Grant, start time.Time) *holds {
	until := start.Add(successor.TTL)
	h.granted(successor, g, start, until)
	return &holds{
		storm: h.storm, store: h.store, cs: []lock.Claim{successor}, gs: []lock.Grant{g}, ends: []time.Time{until},
	}
}

// waits has a successor ask for the name while it is held, as the first waiter of a replica does: that leaves something
// at members.
func (h *holds) waits(successor lock.Claim) (got *holds) {
	for range h.intN(3) {
		start := time.Now()
		g, err := lock.Await(context.Background(), h.store.StartAcquire, successor)
		switch {
		case err == nil && time.Now().Before(start.Add(successor.TTL)):
			return h.successors(successor, g, start)
		case err == nil:
			h.release(h.store, lock.Return{
				Name: successor.Name, Kind: successor.Kind, Owner: successor.Owner, Fence: g.Fence,
			})
		}
	}
	return nil
}

// undone has what was handed to one that had left released, and looks whether it was.
func (h *holds) undone(successor lock.Claim, f lock.Fence) {
	if f != 0 {
		h.release(h.store, lock.Return{Name: successor.Name, Kind: successor.Kind, Owner: successor.Owner, Fence: f})
	}
	if f != 0 && successor.TTL == h.longest && h.has(successor) {
		time.Sleep(successor.TTL * 5 / 6) // a few members may have been slow, and are asked again
		if h.has(successor) {
			h.failed("a majority has %s for %s, which had left", successor.Name, successor.Owner)
		}
	}
}

// has says whether a majority has a name for somebody.
func (h *holds) has(c lock.Claim) bool {
	n := 0
	for _, node := range h.world.nodes {
		if node.has(c.Name) == c.Owner {
			n++
		}
	}
	return n > len(h.world.nodes)/2
}
