package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// bySlots are some names in the order of their slots, which all differ.
func bySlots(t testing.TB, s *Store, n int) []string {
	t.Helper()
	slots := make(map[int]string)
	for i := 0; len(slots) < n; i++ {
		name := fmt.Sprint("name", i)
		slot, err := s.slotOf(name)
		if err != nil {
			t.Fatal(err)
		}
		slots[slot] = name
	}
	var order []int
	for slot := range slots {
		order = append(order, slot)
	}
	slices.Sort(order)
	var names []string
	for _, slot := range order {
		names = append(names, slots[slot])
	}
	return names
}

func release(t *testing.T, s *Store, r lock.Renewal) {
	t.Helper()
	back := lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: r.Fence}
	if _, err := s.Release(t.Context(), back); err != nil {
		t.Error(err)
	}
}

// Of two names the first one is taken and the second one held. The first one is undone, and that comes late: after
// the owner was told that it has both.
func TestALateRollBackEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	late := new(redistest.Late)
	s := openWith(t, Config{Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: 2 * time.Second, Hook: late}})
	names := bySlots(t, s, 2)
	way := holding(t, s, names[1])
	cs := []lock.Claim{claim(names[0], "p"), claim(names[1], "p")}
	scripts := s.all()[0].Scripts
	late.Hold(redistest.Calls(scripts.Release.SHA))
	if _, err := s.AcquireAll(t.Context(), cs); !errors.Is(err, lock.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	late.Hold(nil)
	release(t, s, way)
	var gs []lock.Grant
	soon(t, "both are taken", func() bool {
		var err error
		gs, err = s.AcquireAll(t.Context(), cs)
		return err == nil
	})
	if late.Run(t.Context(), client(t, c)) == 0 {
		t.Error("nothing came late")
	}
	for i, name := range names {
		if st, err := s.Look(t.Context(), name); err != nil || st.Owner != storetest.Full("p") || st.Fence != gs[i].Fence {
			t.Errorf("%s: got %+v and %v, want it held with fence %d", name, st, err, gs[i].Fence)
		}
	}
}

// The reply of the second name is lost, and then somebody takes the first one. The second one is not kept from others
// until its lease ends.
func TestANameWhoseReplyWasLostIsGivenBackWithTheOthers(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c)
	names := bySlots(t, s, 3)
	way := holding(t, s, names[2])
	lossy := openWith(t, Config{
		Addrs: c.Addrs(),
		Node: redisstore.Config{
			OpTimeout: 2 * time.Second, Hook: losing(redistest.Calls(s.all()[0].Scripts.AcquireAll.SHA)),
		},
	})
	var cs []lock.Claim
	for _, name := range names {
		cs = append(cs, claim(name, "p"))
	}
	_, err := lossy.AcquireAll(t.Context(), cs)
	if _, ok := errors.AsType[*lock.HeldError](err); !ok {
		t.Errorf("got %v, want that %s is held", err, names[2])
	}
	for _, name := range names[:2] {
		if st, err := s.Look(t.Context(), name); err != nil || st.Held {
			t.Errorf("%s: got %+v and %v, want it free", name, st, err)
		}
	}
	release(t, s, way)
}

// Slow nodes: what is taken first must not end before the last name is taken.
func TestSlowNodesAreNotAskedForNamesWhoseLeaseIsAboutToEnd(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	const timeout, lease = 2 * time.Second, 6 * time.Second
	s := open(t, c)
	far := openWith(t, Config{
		Addrs: c.Addrs(),
		Node:  redisstore.Config{OpTimeout: timeout, Hook: slower(300 * time.Millisecond)},
	})
	names := bySlots(t, s, 40)
	var cs []lock.Claim
	for _, name := range names {
		cl := claim(name, "p")
		cl.TTL = lease
		cs = append(cs, cl)
	}
	if _, err := far.AcquireAll(t.Context(), cs); !errors.Is(err, errTooSlow) || errors.Is(err, lock.ErrOutcomeUnknown) {
		t.Errorf("got %v, want that it is given up after half of the lease", err)
	}
	for _, name := range names {
		if st, err := s.Look(t.Context(), name); err != nil || st.Held {
			t.Errorf("%s: got %+v and %v, want it free", name, st, err)
		}
	}
}

// A node is silent while a slot moves between two others. A hold that has moved already is renewed at once.
func TestASilentNodeDoesNotDelayRenewalsThatAreSentElsewhere(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // nobody takes its place
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
	if errs[0] != nil || took[0] > timeout/2 {
		t.Errorf("the hold that has moved was renewed after %v: %v", took[0], errs[0])
	}
	if errs[1] == nil || took[1] < timeout*9/10 {
		t.Errorf("this is no test: a silent node has answered after %v: %v", took[1], errs[1])
	}
}
