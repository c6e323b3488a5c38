package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

const ttl = time.Minute

func claim(name string, o lock.Owner) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: storetest.Full(o), TTL: ttl}
}

var must = harness.Must // ends the test at an error

// holding takes a name and says how to renew the hold.
func holding(t testing.TB, s lock.Store, name string) lock.Renewal {
	t.Helper()
	begun := time.Now()
	g, err := lock.Await(t.Context(), s.StartAcquire, claim(name, "o"))
	must(t, err)
	return lock.Renewal{
		Name: name, Kind: lock.Exclusive, Owner: storetest.Full("o"), Fence: g.Fence, TTL: ttl, Seen: begun,
	}
}

// renewed is what became of each renewal.
func renewed(t testing.TB, s lock.Store, rs ...lock.Renewal) []error {
	errs := make([]error, len(rs))
	var told atomic.Int32
	s.Renew(t.Context(), rs, func(i int, err error) { errs[i] = err; told.Add(1) })
	if int(told.Load()) != len(rs) {
		t.Errorf("%d of %d renewals were answered", told.Load(), len(rs))
	}
	return errs
}

func TestASlotMovesWhileItsNamesAreUsed(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s, hasty := open(t, c), open(t, c)
	hasty.within = time.Second
	there, here := holding(t, s, "{x}there"), holding(t, s, "{x}here")
	heard := listen(t, s, "{x}here")

	m := c.Migrate(layout.Slot("{x}"))
	m.MoveKeys(layout.Keys(lock.Exclusive, "{x}there")...)
	// What is known to be on one side goes on. What would be new is refused by both, without harm.
	if errs := renewed(t, s, there, here); errors.Join(errs...) != nil {
		t.Errorf("while the slot moves: %v", errs)
	}
	begun := time.Now()
	_, err := lock.Await(t.Context(), hasty.StartAcquire, claim("{x}new", "o"))
	if !errors.Is(err, lock.ErrUnavailable) || time.Since(begun) > 20*hasty.within {
		t.Errorf("a new name while the slot moves: %v after %v", err, time.Since(begun))
	}
	before := heard(lock.NoticeListening)
	m.Finish()
	if errs := renewed(t, s, there, here); errors.Join(errs...) != nil {
		t.Errorf("when the slot has moved: %v", errs)
	}
	holding(t, s, "{x}new")
	harness.Until(t, "the name is listened to at the new node", func() bool {
		return heard(lock.NoticeListening) > before
	})
	release(t, s, here)
	harness.Until(t, "the release is heard", func() bool { return heard(lock.NoticeReleased) > 0 })
}

// listen begins to listen to a name, and says how often something was heard.
func listen(t testing.TB, s *Store, name string) (heard func(lock.What) int32) {
	t.Helper()
	var all [lock.NoticeDeaf + 1]atomic.Int32
	t.Cleanup(s.Listen(name, lock.Exclusive, func(n lock.Notice) { all[n.What].Add(1) }))
	heard = func(what lock.What) int32 { return all[what].Load() }
	harness.Until(t, "the name is listened to", func() bool { return heard(lock.NoticeListening) > 0 })
	return heard
}

// A slot moved unnoticed. Who begins to listen to one of its names finds out, and does not wait for the next look at
// the slots.
func TestAListenerFollowsASlotThatMovedUnnoticed(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c)
	c.Migrate(layout.Slot("{x}")).Finish()
	begun := time.Now()
	listen(t, s, "{x}here")
	if took := time.Since(begun); took > refreshEvery/2 {
		t.Errorf("it is listened to after %v", took)
	}
}

// elsewhere is a name that another master serves than some, and that master.
func elsewhere(t testing.TB, c *redistest.Cluster, not ...*redistest.Server) (name string, at *redistest.Server) {
	t.Helper()
	for i := 0; ; i++ {
		name = fmt.Sprint("n", i)
		if at = c.MasterOf(layout.Slot(name)); !slices.Contains(not, at) {
			return name, at
		}
	}
}

func TestAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c)
	r := holding(t, s, "{x}a")
	slot := layout.Slot("{x}")
	master := c.MasterOf(slot)
	replica := c.ReplicaOf(master)
	heard := listen(t, s, "{x}b")
	master.Replicated(1)

	c.ReplaceSoon()
	master.Kill()
	c.AwaitMaster(replica)
	harness.Until(t, "the hold is renewed on the new master", func() bool { return renewed(t, s, r)[0] == nil })
	harness.Until(t, "the name is listened to at the new master", func() bool { return heard(lock.NoticeListening) > 1 })
	harness.Until(t, "all masters are there", func() bool { _, err := s.Probe(t.Context()); return err == nil })
	if g, err := lock.Await(t.Context(), s.StartAcquire, claim("{x}c", "o")); err != nil || g.Fence <= r.Fence {
		t.Errorf("got %+v and %v after fence %d", g, err, r.Fence)
	}
}

// Many take several names that are on different nodes, in any order: nobody waits while it holds some, and each set is
// taken as one.
func TestSeveralNamesOnSeveralNodes(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	raw := open(t, c)
	s := settled(t, raw)
	const workers, rounds = 6, 40
	names := bySlots(t, 5)
	held := make([]atomic.Int32, len(names))
	var wg sync.WaitGroup
	var won atomic.Int32
	for w := range workers {
		wg.Go(func() {
			for round := range rounds {
				at := func(i int) int { return (w + round + i*2) % len(names) }
				var cs []lock.Claim
				for i := range 3 {
					cs = append(cs, claim(names[at(i)].Name, lock.Owner(fmt.Sprintf("o%d:#%d", w, round))))
				}
				gs, err := s.AcquireAll(context.Background(), cs)
				if err != nil {
					if !errors.Is(err, lock.ErrHeld) {
						t.Errorf("got %v", err)
					}
					continue
				}
				won.Add(1)
				for i, cl := range cs {
					if held[at(i)].Add(1) != 1 {
						t.Errorf("%s has two holders", cl.Name)
					}
				}
				time.Sleep(time.Millisecond)
				for i, cl := range cs {
					held[at(i)].Add(-1)
					release(t, s, lock.Renewal{Name: cl.Name, Kind: cl.Kind, Owner: cl.Owner, Fence: gs[i].Fence})
				}
			}
		})
	}
	wg.Wait()
	if won.Load() == 0 {
		t.Error("nobody ever had all of its names")
	}
	s.Wait(t.Context())
	wantFree(t, raw, names...)
}

// A server outside a cluster is an error of the configuration; one that is away is not.
func TestOpen(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := Config{Node: redisstore.Config{OpTimeout: 10 * time.Second}}
	for _, addr := range []string{srv.Addr, redistest.StartSentinel(t, srv.Addr).Addr} {
		cfg.Addrs = []string{addr}
		if _, err := Open(t.Context(), cfg, zaptest.NewLogger(t), metrics(t)); !errors.Is(err, ErrNoCluster) {
			t.Errorf("%s: got %v", addr, err)
		}
	}
	srv.Kill()
	cfg.Addrs = []string{srv.Addr}
	s := openWith(t, cfg)
	if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o")); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want it to be unavailable", err)
	}
	s.Listen("n", lock.Exclusive, func(lock.Notice) {})()
}

// Connections that were made for names on their way are closed when no name is.
func TestConnectionsForAMovingSlotAreClosedAfterIt(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c)
	r := holding(t, s, "{x}a")
	m := c.Migrate(layout.Slot("{x}"))
	m.MoveKeys(layout.Keys(lock.Exclusive, "{x}a")...)
	asking := func() (n int) {
		for _, nd := range s.all() {
			nd.mu.Lock()
			if nd.asking != nil {
				n++
			}
			nd.mu.Unlock()
		}
		return n
	}
	if err := renewed(t, s, r)[0]; err != nil {
		t.Error(err)
	}
	if asking() != 1 {
		t.Errorf("%d nodes were asked for a name on its way, want one", asking())
	}
	s.mu.Lock()
	s.linger = time.Second
	s.mu.Unlock()
	_ = renewed(t, s, r) // as the last one; its time may be over before it is answered
	m.Finish()
	harness.Until(t, "closed", func() bool { s.refreshSoon(); return asking() == 0 })
	if err := renewed(t, s, r)[0]; err != nil {
		t.Error(err)
	}
}

// While nobody tells who has the slots, lockd asks again and again, and says so once.
func TestThatNobodyTellsOfSlotsIsToldOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Kill()
	core, logs := observer.New(zapcore.WarnLevel)
	s, err := Open(t.Context(), Config{Addrs: []string{srv.Addr}, Node: redisstore.Config{OpTimeout: time.Second}},
		zap.New(core), metrics(t))
	must(t, err)
	defer s.Close()
	told := func() int {
		_, _ = s.Probe(t.Context()) // which has the slots looked up
		return logs.FilterMessageSnippet("nobody tells").Len()
	}
	harness.Until(t, "it is told", func() bool { return told() > 0 })
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && told() == 1; {
		time.Sleep(10 * time.Millisecond)
	}
	if n := told(); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
}
