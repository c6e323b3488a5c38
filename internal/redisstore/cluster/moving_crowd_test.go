package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/settle"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// crowd takes names of all kinds in one slot while that moves, and knows who has them.
type crowd struct {
	*testing.T
	s     *settle.Store
	over  atomic.Bool
	grant atomic.Int32

	mu   sync.Mutex // guards the fields below
	out  map[string]int
	last map[string]lock.Fence // of the names that one has alone
}

const crowdPermits = 2

// took notes a grant, and checks that nobody is there whom it excludes.
func (c *crowd) took(cl lock.Claim, f lock.Fence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant.Add(1)
	key := cl.Name + cl.Kind.String()
	c.out[key]++
	switch alone := c.out[key] == 1; {
	case cl.Kind == lock.Read:
		if c.out[cl.Name+lock.Write.String()] > 0 {
			c.Errorf("%s is read with fence %d while it is written", cl.Name, f)
		}
		return
	case cl.Kind == lock.Semaphore:
		if c.out[key] > crowdPermits {
			c.Errorf("%d permits of %s are out", c.out[key], cl.Name)
		}
		return
	case cl.Kind == lock.Write && c.out[cl.Name+lock.Read.String()] > 0:
		c.Errorf("%s is written with fence %d while it is read", cl.Name, f)
	case !alone:
		c.Errorf("%s has two holders", cl.Name)
	}
	if f <= c.last[key] {
		c.Errorf("%s is granted with fence %d after %d", cl.Name, f, c.last[key])
	}
	c.last[key] = f
}

func (c *crowd) gives(cl lock.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out[cl.Name+cl.Kind.String()]--
}

func (c *crowd) work(n int) {
	rng := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // no secret
	for i := 0; !c.over.Load(); i++ {
		kind := []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Read, lock.Write, lock.Semaphore}[rng.IntN(6)]
		name := "{x}" + kind.String()
		if kind == lock.Read || kind == lock.Write {
			name = "{x}rw"
		}
		cl := claim(name, lock.Owner(fmt.Sprintf("o%d:#%d", n, i)))
		cl.Kind = kind
		switch kind {
		case lock.Semaphore:
			cl.Permits, cl.Limit = 1, crowdPermits
		case lock.Write:
			cl.Place = 300 * time.Millisecond
		default:
		}
		g, err := lock.Await(c.Context(), c.s.StartAcquire, cl)
		for try := 0; kind == lock.Write && errors.Is(err, lock.ErrHeld) && try < 20; try++ { // it waits
			time.Sleep(10 * time.Millisecond)
			g, err = lock.Await(c.Context(), c.s.StartAcquire, cl)
		}
		switch {
		case err == nil:
			c.keep(cl, g, rng)
		case kind == lock.Write && c.s.Leave(context.Background(), name, kind, []lock.Owner{cl.Owner}) == nil:
		case !errors.Is(err, lock.ErrHeld) && !lock.Retriable(err):
			c.Errorf("acquire %s: %v", name, err)
		}
		time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
	}
}

// keep has a hold for a while, and releases it.
func (c *crowd) keep(cl lock.Claim, g lock.Grant, rng *rand.Rand) {
	c.took(cl, g.Fence)
	for range rng.IntN(4) {
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		err := renewed(c, c.s, lock.Renewal{
			Name: cl.Name, Kind: cl.Kind, Owner: cl.Owner, Fence: g.Fence, TTL: ttl, Permits: cl.Permits, Seen: time.Now(),
		})[0]
		if err != nil && !lock.Retriable(err) {
			c.Errorf("renew %s: %v", cl.Name, err)
		}
	}
	c.gives(cl)
	if _, err := lock.Await(context.Background(), c.s.StartRelease, cl.Return()); err != nil && !lock.Retriable(err) {
		c.Errorf("release %s: %v", cl.Name, err)
	}
}

// While a slot moves, key by key, to and fro, nobody gets what another one has, no hold is lost, and no key is at both
// nodes.
func TestNobodyHasTheHoldOfAnotherWhileASlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	s := open(t, nodes)
	s.within = 200 * time.Millisecond
	c := &crowd{T: t, s: settled(t, s), out: make(map[string]int), last: make(map[string]lock.Fence)}
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() { c.work(n) })
	}
	const enough = 100 // grants to show something
	rounds, end := tier.Pick(4, 20), time.Now().Add(harness.Patience)
	for round := 0; round < rounds || c.grant.Load() < enough && time.Now().Before(end); round++ {
		time.Sleep(300 * time.Millisecond)
		before := c.grant.Load()
		m := nodes.Migrate(layout.Slot("{x}"))
		for m.Move(1) > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		m.Finish()
		t.Logf("%d grants meanwhile", c.grant.Load()-before)
	}
	time.Sleep(300 * time.Millisecond)
	c.over.Store(true)
	wg.Wait()
	if c.grant.Load() < enough {
		t.Errorf("there were %d grants: this shows nothing", c.grant.Load())
	}
}
