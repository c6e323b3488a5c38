package cluster

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// A tenant floods a node that answers late with names that never come back. Calls of others at other nodes are
// answered, the flood takes no goroutines and no connections, and is over after it ends.
func TestAFloodOfASlowNodeIsInNobodysWay(t *testing.T) { // alone: it counts goroutines
	c := redistest.StartCluster(t)
	proxies := c.Proxies()
	s := openWith(t, Config{Addrs: redistest.Addrs(c.Nodes)[:1], Node: redisstore.Config{OpTimeout: 2 * time.Second}})
	slow := slices.Index(c.Nodes, c.MasterOf(layout.Slot("{x}")))
	other, _ := elsewhere(t, c, c.Nodes[slow])
	holding(t, s, "{x}warm")
	holding(t, s, other)
	connections := func() int {
		n, err := c.Nodes[slow].Client().Do(t.Context(), "info", "clients").Text()
		if err != nil {
			t.Fatal(err)
		}
		var connected int
		_, _ = fmt.Sscanf(n, "# Clients\r\nconnected_clients:%d", &connected)
		return connected
	}
	before, goroutines := connections(), runtime.NumGoroutine()
	proxies[slow].Delay(400 * time.Millisecond)

	const atOnce, most = 10_000, 40_000
	var flood sync.WaitGroup
	over := make(chan struct{})
	room := make(chan struct{}, atOnce)
	flood.Go(func() {
		for i := range most {
			select {
			case <-over:
				return
			case room <- struct{}{}:
			}
			flood.Add(1)
			s.StartAcquire(claim(fmt.Sprint("{x}", i), "mallory:#1"), func(lock.Grant, error) { <-room; flood.Done() })
		}
	})
	soon(t, "very many wait for the slow node",
		func() bool { return s.slots[layout.Slot("{x}")].Load().Waiting() > atOnce/2 })
	for range 50 { // one that waited for the slow node would be refused
		if _, err := s.Acquire(t.Context(), claim(other, "o")); err != nil {
			t.Errorf("a neighbour at another node: %v", err)
		}
	}
	if n := runtime.NumGoroutine() - goroutines; n > 50 {
		t.Errorf("%d goroutines more", n)
	}
	if n := connections() - before; n > 5 {
		t.Errorf("%d connections more", n)
	}
	close(over)
	flood.Wait()
}
