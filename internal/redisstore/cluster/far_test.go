package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// The nodes are so far away that making a connection takes several operations' time.
func TestAFarClusterWorks(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	const late = 350 * time.Millisecond
	var addrs []string
	for _, p := range c.Proxies() {
		p.Delay(late)
		addrs = append(addrs, p.Addr)
	}
	s := openWith(t, Config{
		Addrs: addrs,
		Node:  redisstore.Config{OpTimeout: 2 * late, HearTimeout: time.Minute},
	})
	harness.Until(t, "all nodes are there", func() bool { _, err := s.Probe(t.Context()); return err == nil })
	heard := make(chan lock.What, 100)
	defer s.Listen("a", lock.Exclusive, func(n lock.Notice) { heard <- n.What })()
	var f lock.Fence
	for _, name := range []string{"b", "a"} {
		harness.Until(t, name+" is taken", func() bool {
			g, err := lock.Await(t.Context(), s.StartAcquire, claim(name, "o"))
			f = g.Fence
			return err == nil
		})
	}
	r := lock.Renewal{Name: "a", Kind: lock.Exclusive, Owner: storetest.Full("o"), Fence: f, TTL: ttl, Seen: time.Now()}
	harness.Until(t, "it is renewed", func() bool { return errors.Join(renewed(t, s, r)...) == nil })
	for what := range heard {
		if what == lock.NoticeListening {
			break
		}
	}
	harness.Until(t, "it is released", func() bool {
		r := lock.Return{Name: "a", Kind: lock.Exclusive, Owner: storetest.Full("o"), Fence: f}
		_, err := lock.Await(t.Context(), s.StartRelease, r)
		return err == nil || errors.Is(err, lock.ErrNotHeld) // an answer was late; that it was released is heard
	})
	for what := range heard {
		if what == lock.NoticeReleased {
			break
		}
	}
}

// The slots are known soon although most nodes are silent.
func TestSilentNodesDoNotKeepTheSlotsSecret(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for _, n := range c.Nodes[3:] {
		n.Pause()
		defer n.Resume()
	}
	const patience = 5 * time.Minute // with each node that does not answer
	begun := time.Now()
	s := openWith(t, Config{
		Addrs: append(redistest.Addrs(c.Nodes[3:]), c.Nodes[0].Addr),
		Node:  redisstore.Config{OpTimeout: 2 * time.Second, ConnectTimeout: patience},
	})
	harness.Until(t, "a name is taken", func() bool {
		_, err := lock.Await(t.Context(), s.StartAcquire, claim("a", "o"))
		return err == nil
	})
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it took %v to find the first node that answers", took)
	}
}
