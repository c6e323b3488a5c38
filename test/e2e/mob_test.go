package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	mobTTL   = time.Second // of the sessions of a mob
	mobLimit = 3           // of its semaphore
)

// mob are clients of several replicas that do all that clients can do with few names, at once, and what is known of it.
type mob struct {
	t     *testing.T
	conns []*grpc.ClientConn
	ops   []*grpc.ClientConn
	over  time.Time

	mu     sync.Mutex // guards the fields below
	names  map[string]*mobName
	counts map[string]int
}

// mobName is what is known of a name.
type mobName struct {
	kind   lockdv1.LockKind // Read stands for readers and writers
	forced bool             // is released by force: nobody surely has it
	alone  int              // who surely have it for themselves
	shared int              // permits, or readers, that are surely out
	given  map[uint64]bool  // fences of grants
	told   map[uint64]int   // how often the end of a fence was told
	merged bool             // ends were told without their fences
}

func newMob(t *testing.T, d time.Duration, ds ...*harness.Lockd) *mob {
	m := &mob{t: t, over: time.Now().Add(d), counts: make(map[string]int), names: map[string]*mobName{
		"exclusive": {kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
		"fair":      {kind: lockdv1.LockKind_LOCK_KIND_FAIR},
		"book":      {kind: lockdv1.LockKind_LOCK_KIND_READ},
		"pool":      {kind: lockdv1.LockKind_LOCK_KIND_SEMAPHORE},
		"forced":    {kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, forced: true},
		"taken":     {kind: lockdv1.LockKind_LOCK_KIND_READ, forced: true},
		"robbed":    {kind: lockdv1.LockKind_LOCK_KIND_FAIR, forced: true},
		"drained":   {kind: lockdv1.LockKind_LOCK_KIND_SEMAPHORE, forced: true},
	}}
	for _, n := range m.names {
		n.told, n.given = make(map[uint64]int), make(map[uint64]bool)
	}
	for _, d := range ds {
		m.conns = append(m.conns, d.Connect(t))
		m.ops = append(m.ops, d.Operate(t))
	}
	return m
}

var mobNames = []string{"exclusive", "fair", "book", "pool", "forced", "taken", "robbed", "drained"}

func (m *mob) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// mobHold is a hold of one of them.
type mobHold struct {
	name    string
	kind    lockdv1.LockKind
	permits int
	hold    *lockdv1.Hold
}

func (h *mobHold) sharing() bool {
	return h.kind == lockdv1.LockKind_LOCK_KIND_READ || h.kind == lockdv1.LockKind_LOCK_KIND_SEMAPHORE
}

// granted notes a hold.
func (m *mob) granted(h *mobHold, fence uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[h.name]
	if n.given[fence] && h.kind != lockdv1.LockKind_LOCK_KIND_SEMAPHORE {
		m.t.Errorf("fence %d of %s was given twice", fence, h.name)
	}
	n.given[fence] = true
	if h.sharing() {
		n.shared += h.permits
	} else {
		n.alone++
	}
	if !n.forced && (n.alone > 1 || n.alone == 1 && n.shared > 0 || n.kind == lockdv1.LockKind_LOCK_KIND_SEMAPHORE &&
		n.shared > mobLimit) {
		m.t.Errorf("%d have %s for themselves, %d share it", n.alone, h.name, n.shared)
	}
}

// leaves notes that somebody does not surely have a hold any more; gone, until when it may have lasted.
func (m *mob) leaves(h *mobHold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[h.name]
	if h.sharing() {
		n.shared -= h.permits
	} else {
		n.alone--
	}
}

// beOperator releases by force.
func (m *mob) beOperator(rng *rand.Rand) {
	for time.Now().Before(m.over) {
		time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
		for name, n := range m.names {
			if !n.forced || rng.IntN(2) == 0 {
				continue
			}
			r, err := lockdv1.NewAdminServiceClient(m.ops[rng.IntN(len(m.ops))]).ForceRelease(context.Background(),
				&lockdv1.ForceReleaseRequest{Name: name, Kind: n.kind})
			if err != nil {
				m.t.Error(err)
			}
			m.count(fmt.Sprint("forced ", r.GetReleased()))
		}
	}
}

// watch counts the ends of holds.
func (m *mob) watch(t *testing.T, d *harness.Lockd) (stop func()) {
	c := open(t, d.Connect(t), &lockdv1.Open{})
	for i, name := range mobNames {
		c.send(&lockdv1.SessionRequest{
			RequestId: uint64(i + 1),
			Message:   &lockdv1.SessionRequest_Watch{Watch: &lockdv1.Watch{Name: name}},
		})
		c.answer(uint64(i + 1))
	}
	still := c.beat(time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			r, err := c.Recv()
			if err != nil {
				return
			}
			u := r.GetUnlocked()
			if u == nil {
				continue
			}
			m.mu.Lock()
			n := m.names[u.GetName()]
			n.told[u.GetFence()]++
			n.merged = n.merged || u.GetMerged() > 0
			m.counts[fmt.Sprint("heard ", u.GetCause(), " merged ", u.GetMerged() > 0)]++
			m.mu.Unlock()
		}
	}()
	return func() { still(); c.cancel(); <-done }
}

// useMob lets a mob do what it wants for a time.
func useMob(t *testing.T, seed uint64, d time.Duration, ds ...*harness.Lockd) *mob {
	m := newMob(t, d, ds...)
	stop := m.watch(t, ds[1])
	rng := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) } //nolint:gosec // a test
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() { m.beMember(i, rng(uint64(i))) })
	}
	for i := range 6 {
		wg.Go(func() { m.beShell(i, rng(uint64(100+i))) })
	}
	wg.Go(func() { m.beOperator(rng(200)) })
	wg.Wait()
	time.Sleep(2 * mobTTL) // the last ends
	stop()
	return m
}

// judge checks that the end of each grant was told once. The permits of unary leases have no fences.
func (m *mob) judge() {
	for name, n := range m.names {
		never, often := 0, 0
		for f := range n.given {
			switch told := n.told[f]; {
			case told == 0:
				never++
			case told > 1:
				often++
			}
		}
		never = max(0, never-n.told[0])
		m.t.Logf("%s: %d grants", name, len(n.given))
		if len(n.given) == 0 {
			m.t.Errorf("%s: no grants: this shows nothing", name)
		}
		if often > 0 || never > 0 && !n.merged {
			m.t.Errorf("%s: of %d grants %d ends were never told, and %d more than once", name, len(n.given), never, often)
		}
	}
	for what, n := range m.counts {
		m.t.Logf("%6d %s", n, what)
	}
}

// TestAMobIsServedAndLeavesNothing has many clients of two replicas do all that they can do with a few names at once.
// LOCKD_SEED repeats their choices.
func TestAMobIsServedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("LOCKD_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	useMob(t, seed, tier.Pick(2*time.Second, 6*time.Second), a, b).judge()
	for _, name := range []string{"pool", "drained"} { // what semaphores keep of their limits and of ended permits
		for _, key := range []string{name, "{" + name + "}:timeout"} {
			if ttl := rc.PTTL(t.Context(), key).Val(); ttl == -1 {
				t.Errorf("%s stays for ever", key)
			}
			rc.Del(t.Context(), key)
		}
	}
	settle(t, rc, a, b)
}
