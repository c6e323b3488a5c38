package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// Without the right to ask for what is on its way, a call is sent from node to node and back. That costs neither of
// them much.
func TestNodesThatSendACallToEachOtherAreNotFlooded(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for _, n := range c.Nodes {
		must(t, n.Client().Do(t.Context(), "acl", "setuser", "default", "-asking").Err())
	}
	s := open(t, c)
	s.within = time.Second
	c.Migrate(layout.Slot("{x}"))
	if _, err := lock.Await(t.Context(), s.StartAcquire, claim("{x}new", "o")); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := redirections(t, s, kindMoved) + redirections(t, s, kindAsk); n < 2 || n > 120 {
		t.Errorf("%v calls in a second", n)
	}
}

// Each of very many slots moves while very many listen in others.
func TestASlotThatMovesCostsOnlyThoseWhoListenInIt(t *testing.T) {
	t.Parallel()
	s := &Store{ctx: t.Context(), listeners: make(map[int]map[*listener]struct{})}
	from, to := new(node), new(node)
	heard := 0
	for i := range 100_000 {
		slot := i % layout.Slots
		s.slots[slot].Store(from)
		defer s.hear(slot, func(*redisstore.Store) func() { heard++; return func() {} })()
	}
	heard = 0
	begun := time.Now()
	s.mu.Lock()
	for slot := range 5000 {
		s.slots[slot].Store(to)
		s.moveListenersLocked(slot)
	}
	s.mu.Unlock()
	if took := time.Since(begun); took > time.Second { // 5,000 times all of them would take many
		t.Errorf("it took %v", took)
	}
	if want := 5000*(100_000/layout.Slots) + min(5000, 100_000%layout.Slots); heard != want {
		t.Errorf("%d listen anew, want %d", heard, want)
	}
}
