package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/settle"
	"github.com/lockd-io/lockd/test/harness"
)

// bySlots are claims of some names for p, in the order of their slots, which all differ.
func bySlots(t testing.TB, n int) []lock.Claim {
	t.Helper()
	names := make(map[int]string)
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprint("name", i)
		names[layout.Slot(name)] = name
	}
	var cs []lock.Claim
	for _, slot := range slices.Sorted(maps.Keys(names)) {
		cs = append(cs, claim(names[slot], "p"))
	}
	return cs
}

func release(t testing.TB, s lock.Store, r lock.Renewal) {
	t.Helper()
	back := lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: r.Fence}
	if _, err := lock.Await(t.Context(), s.StartRelease, back); err != nil {
		t.Error(err)
	}
}

// wantFree looks whether names are free.
func wantFree(t testing.TB, s *Store, cs ...lock.Claim) {
	t.Helper()
	for _, c := range cs {
		if st, err := s.Look(t.Context(), c.Name); err != nil || st.Held {
			t.Errorf("%s: got %+v and %v, want it free", c.Name, st, err)
		}
	}
}

// settled is a Store as lockd uses it.
func settled(t testing.TB, s lock.Store) *settle.Store {
	t.Helper()
	is, err := settle.New(s, settle.Config{}, zaptest.NewLogger(t), nil)
	must(t, err)
	t.Cleanup(is.Close)
	return is
}

// Of two names the first one is taken and the second one held. The first is released, and that comes late: after the
// owner was told that it has both.
func TestALateRollBackEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	drops := new(dropping)
	raw := openWith(t, Config{Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: 10 * time.Second, Hook: drops}})
	s := settled(t, raw)
	cs := bySlots(t, 2)
	way := holding(t, raw, cs[1].Name)
	drops.all(redistest.Calls(raw.all()[0].Scripts.Release.SHA))
	if _, err := s.AcquireAll(t.Context(), cs); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("got %v, want that it is held", err)
	}
	drops.all(nil)
	release(t, raw, way)
	var gs []lock.Grant
	harness.Until(t, "both are taken", func() bool {
		var err error
		gs, err = s.AcquireAll(t.Context(), cs)
		return err == nil
	})
	s.Wait(t.Context())
	for i, cl := range cs {
		if st, err := s.Look(t.Context(), cl.Name); err != nil || st.Owner != cl.Owner || st.Fence != gs[i].Fence {
			t.Errorf("%s: got %+v and %v, want it held with fence %d", cl.Name, st, err, gs[i].Fence)
		}
	}
}

// The reply of the second name is lost, and then somebody takes the first one. The second one is not kept from others
// until its lease ends.
func TestANameWhoseReplyWasLostIsUndoneWithTheOthers(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c)
	cs := bySlots(t, 3)
	holding(t, s, cs[2].Name)
	loses := &losing{which: redistest.Calls(s.all()[0].Scripts.AcquireAll.SHA)}
	lossy := settled(t, openWith(t, Config{
		Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: 10 * time.Second, Hook: loses},
	}))
	_, err := lossy.AcquireAll(t.Context(), cs)
	if _, ok := errors.AsType[*lock.HeldError](err); !ok {
		t.Errorf("got %v, want that %s is held", err, cs[2].Name)
	}
	lossy.Wait(t.Context())
	wantFree(t, s, cs[:2]...)
}

// Slow nodes: what is taken first must not end before the last name is taken.
func TestSlowNodesAreNotAskedForNamesWhoseLeaseIsAboutToEnd(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	raw := openWith(t, Config{
		Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: 10 * time.Second, Hook: slower(300 * time.Millisecond)},
	})
	raw.within = 2 * time.Second // which it gives them at least
	far := settled(t, raw)
	cs := bySlots(t, 40)
	for i := range cs {
		cs[i].TTL = 6 * time.Second
	}
	_, err := far.AcquireAll(t.Context(), cs)
	if !errors.Is(err, errTooSlow) || errors.Is(err, lock.ErrOutcomeUnknown) {
		t.Errorf("got %v, want that it is given up after half of the lease", err)
	}
	far.Wait(t.Context())
	wantFree(t, open(t, c), cs...)
}

// A node is silent while a slot moves between two others. A hold that has moved already is renewed at once, not when it
// is known what became of that node's.
func TestASilentNodeDoesNotDelayRenewalsThatAreSentElsewhere(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	const timeout = 4 * time.Second
	s := openWith(t, Config{Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: timeout}})
	moved := holding(t, s, "{x}a")
	m := c.Migrate(layout.Slot("{x}"))
	name, at := elsewhere(t, c, m.From, m.To)
	elsewhere := holding(t, s, name)
	m.MoveKeys(layout.Keys(lock.Exclusive, "{x}a")...)
	if err := renewed(t, s, moved)[0]; err != nil { // connections are there from now on
		t.Fatal(err)
	}
	at.Pause()
	defer at.Resume()
	begun := time.Now()
	var took [2]time.Duration
	var errs [2]error
	s.Renew(t.Context(), []lock.Renewal{moved, elsewhere},
		func(i int, err error) { errs[i], took[i] = err, time.Since(begun) })
	if errs[0] != nil || took[0] > took[1]-timeout/4 {
		t.Errorf("the hold that has moved is told after %v, and the other one after %v: %v", took[0], took[1], errs[0])
	}
	if errs[1] == nil || took[1] < timeout*9/10 {
		t.Errorf("this is no test: a silent node has answered after %v: %v", took[1], errs[1])
	}
}
