package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestAFloodOfASlowNodeIsInNobodysWay(t *testing.T) { flood(t, false) } // alone: it counts goroutines

func TestASilentNodeIsInNobodysWay(t *testing.T) { t.Parallel(); flood(t, true) }

// flood has a tenant flood a node with names that never come back, while the node answers late or not at all. Calls of
// others at other nodes are answered, the flood takes no goroutines and no connections, and the store is closed soon
// all the same.
func flood(t *testing.T, silent bool) {
	c := redistest.StartCluster(t)
	const timeout, atOnce = 2 * time.Second, 10_000
	proxies := c.Proxies()
	s := openWith(t, Config{Addrs: c.Addrs()[:1], Node: redisstore.Config{OpTimeout: timeout}})
	slow := c.MasterOf(layout.Slot("{x}"))
	other, _ := elsewhere(t, c, slow)
	for _, name := range []string{"{x}warm", other} {
		harness.Until(t, name+" is taken", func() bool {
			_, err := lock.Await(t.Context(), s.StartAcquire, claim(name, "o"))
			return err == nil
		})
	}
	connections := func() int {
		info, err := slow.Client().Info(t.Context(), "clients").Result()
		must(t, err)
		var n int
		_, _ = fmt.Sscanf(info[strings.Index(info, "connected_clients:"):], "connected_clients:%d", &n)
		return n
	}
	before, goroutines := connections(), runtime.NumGoroutine()
	if silent {
		slow.Pause()
		defer slow.Resume()
	} else {
		proxies[slices.Index(c.Nodes, slow)].Delay(400 * time.Millisecond)
	}

	var flood sync.WaitGroup
	over, room := make(chan struct{}), make(chan struct{}, atOnce)
	flood.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case room <- struct{}{}:
			}
			flood.Add(1)
			s.StartAcquire(claim(fmt.Sprint("{x}", i), "mallory:#1"), func(lock.Grant, error) { <-room; flood.Done() })
		}
	})
	at := s.slots[layout.Slot("{x}")].Load()
	harness.Until(t, "very many wait for the node", func() bool {
		return at.Waiting() > atOnce/2 && at.Connected() != silent
	})
	if n := s.Waiting(); silent && n > 100 {
		t.Errorf("%d count as waiting, want those that wait for the others only", n)
	}
	var refused []error
	for range 50 { // each would be if it waited for the node
		if _, err := lock.Await(t.Context(), s.StartAcquire, claim(other, "o")); err != nil {
			refused = append(refused, err)
		}
	}
	if len(refused) > 5 { // the other node may stand still for a moment, too
		t.Errorf("%d of 50 neighbours at another node are refused: %v", len(refused), refused[0])
	}
	if !silent {
		if n := runtime.NumGoroutine() - goroutines; n > 50 {
			t.Errorf("%d goroutines more", n)
		}
		if n := connections() - before; n > 5 {
			t.Errorf("%d connections more", n)
		}
	}
	close(over)
	flood.Wait()
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*timeout {
		t.Errorf("closed after %v", took)
	}
}

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
	sent := func() float64 { return redirections(t, s, kindMoved) + redirections(t, s, kindAsk) }
	harness.Until(t, "they send it to each other", func() bool { // it has not much time for that
		before := sent()
		if _, err := lock.Await(t.Context(), s.StartAcquire, claim("{x}new", "o")); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		n := sent() - before
		if n > 120 {
			t.Errorf("%v calls in a second", n)
		}
		return n >= 2
	})
}

// Each of very many slots moves while very many listen in others. Those are not looked at.
func TestASlotThatMovesCostsOnlyThoseWhoListenInIt(t *testing.T) {
	t.Parallel()
	const moves = 5000
	s := &Store{ctx: t.Context(), listeners: make(map[int]map[*listener]struct{})}
	from, to := new(node), new(node)
	heard := 0
	for i := range 100_000 {
		slot := i % layout.Slots
		s.slots[slot].Store(from)
		defer s.hear(slot, func(*redisstore.Store) func() { heard++; return func() {} })()
	}
	for slot := moves; slot < layout.Slots; slot++ {
		s.listeners[slot][nil] = struct{}{} // who looks at that one panics
	}
	heard = 0
	s.mu.Lock()
	for slot := range moves {
		s.slots[slot].Store(to)
		s.moveListenersLocked(slot)
	}
	s.mu.Unlock()
	if want := moves*(100_000/layout.Slots) + min(moves, 100_000%layout.Slots); heard != want {
		t.Errorf("%d listen anew, want %d", heard, want)
	}
}
