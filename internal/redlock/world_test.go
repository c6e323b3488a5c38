package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/settle"
	"github.com/lockd-io/lockd/test/harness"
)

// world is some nodes and a majority over them, in a bubble.
type world struct {
	*testing.T
	nodes   []*node
	new     time.Time              // since when they are, if they are marked as new
	members []*settle.Store        // of all majorities
	settled []*prometheus.Registry // theirs
	*Store
}

// inWorld runs a test with so many nodes.
func inWorld(t *testing.T, nodes int, cfg Config, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		for range nodes {
			w.nodes = append(w.nodes, newNode())
		}
		w.Store = w.another(cfg)
		defer w.end()
		test(w)
	})
}

// end has nothing go on.
func (w *world) end() {
	for _, m := range w.members {
		m.Close()
	}
	time.Sleep(lastCalls)
}

// another majority over the same nodes, as another replica has it.
func (w *world) another(cfg Config) *Store {
	var all []lock.Store
	for _, n := range w.nodes {
		n = &node{server: n.server}
		if w.new.IsZero() {
			all = append(all, n)
		} else {
			all = append(all, newcomer{n, w.new})
		}
	}
	return w.over(cfg, all...)
}

// over is a majority over some members, each of which settles what is unsettled.
func (w *world) over(cfg Config, members ...lock.Store) *Store {
	var all []lock.Store
	for _, m := range members {
		reg := prometheus.NewRegistry()
		m, err := settle.New(m, settle.Config{Member: true}, zap.NewNop(), reg)
		must(w, err)
		w.members, w.settled, all = append(w.members, m), append(w.settled, reg), append(all, m)
	}
	s, err := New(cfg, all, zap.NewNop(), nil)
	must(w, err)
	w.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.Error(err)
		}
	})
	return s
}

// unsettled is how many releases members have not acknowledged yet.
func (w *world) unsettled() (n float64) {
	for _, reg := range w.settled {
		families, err := reg.Gather()
		must(w, err)
		for _, f := range families {
			if f.GetName() == "lockd_settle_pending" {
				n += f.GetMetric()[0].GetGauge().GetValue()
			}
		}
	}
	return n
}

// claimOf is a first acquisition for ten seconds.
func claimOf(name string, o lock.Owner) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: o, TTL: 10 * time.Second}
}

func returnOf(name string, o lock.Owner, f lock.Fence) lock.Return {
	return lock.Return{Name: name, Kind: lock.Exclusive, Owner: o, Fence: f}
}

func renewalOf(name string, o lock.Owner, f lock.Fence) lock.Renewal {
	return lock.Renewal{Name: name, Kind: lock.Exclusive, Owner: o, Fence: f, TTL: 10 * time.Second}
}

var must = harness.Must // ends the test at an error

// take makes an acquisition that must succeed.
func (w *world) take(s *Store, c lock.Claim) lock.Grant {
	w.Helper()
	g, err := lock.Await(w.Context(), s.StartAcquire, c)
	if err != nil {
		w.Fatalf("acquire %+v: %v", c, err)
	}
	return g
}

// give makes a release that must succeed.
func (w *world) give(s *Store, r lock.Return) {
	w.Helper()
	if _, err := lock.Await(w.Context(), s.StartRelease, r); err != nil {
		w.Fatalf("release %+v: %v", r, err)
	}
}

// renew makes one renewal.
func (w *world) renew(r lock.Renewal) (err error) {
	w.Store.Renew(w.Context(), []lock.Renewal{r}, func(_ int, e error) { err = e })
	return err
}

// holders are who holds a name at each node.
func (w *world) holders(name string) (os []lock.Owner) {
	for _, n := range w.nodes {
		os = append(os, n.has(name))
	}
	return os
}

// puts has a node hold a name for somebody whom no majority knows.
func (w *world) puts(node int, c lock.Claim) {
	w.Helper()
	_, err := lock.Await(w.Context(), w.nodes[node].Store.StartAcquire, c)
	must(w, err)
}
