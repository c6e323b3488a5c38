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

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	mobTTL   = time.Second // of the sessions of a mob
	mobLimit = 3           // of its semaphore
	// mobStall is how long nobody may have a name that somebody waits for.
	mobStall = 2 * time.Second
)

// mob are clients of several replicas that do all that clients can do with few names, at once, and what is known of it.
type mob struct {
	t     *testing.T
	conns []*grpc.ClientConn
	ops   []*grpc.ClientConn
	over  time.Time

	mu      sync.Mutex // guards the fields below
	names   map[string]*mobName
	counts  map[string]int
	freezes []freeze
}

// freeze is a time in which Redis or this test did not come to its turn. A busy machine makes it, not lockd.
type freeze struct {
	end time.Time
	d   time.Duration
}

// feel notes freezes until all are done, which may be after the end.
func (m *mob) feel(rc *redis.Client, done <-chan struct{}) {
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-done:
			return
		default:
		}
		time.Sleep(5 * time.Millisecond)
		rc.Ping(context.Background())
		if d := time.Since(last); d > 50*time.Millisecond {
			m.mu.Lock()
			m.freezes = append(m.freezes, freeze{time.Now(), d})
			m.mu.Unlock()
		}
	}
}

// idleLocked is how long nobody had a name that was asked for at a time.
func (m *mob) idleLocked(n *mobName, asked, now time.Time) time.Duration {
	if n.busy.After(asked) {
		asked = n.busy
	}
	idle := now.Sub(asked)
	for _, f := range m.freezes {
		if f.end.After(asked) {
			idle -= f.d
		}
	}
	return idle
}

// mobName is what is known of a name.
type mobName struct {
	kind   lockdv1.LockKind // Read stands for readers and writers
	forced bool             // is released by force: nobody surely has it
	alone  int              // who surely have it for themselves
	shared int              // permits, or readers, that are surely out
	busy   time.Time        // the last moment at which somebody may have had it
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

// granted takes note of a hold that somebody asked for at a time.
func (m *mob) granted(h *mobHold, fence uint64, asked time.Time, who string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[h.name]
	now := time.Now()
	if idle := m.idleLocked(n, asked, now); idle > mobStall {
		m.t.Errorf("%s waited for %s for %v although nobody had it", who, h.name, idle)
	}
	n.busyUntil(now)
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

// leaves takes note that somebody does not surely have a hold any more; gone, until when it may have lasted.
func (m *mob) leaves(h *mobHold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[h.name]
	n.busyUntil(time.Now())
	if h.sharing() {
		n.shared -= h.permits
	} else {
		n.alone--
	}
}

func (m *mob) gone(h *mobHold, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[h.name].busyUntil(at)
}

func (n *mobName) busyUntil(at time.Time) {
	if at.After(n.busy) {
		n.busy = at
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
func useMob(t *testing.T, seed uint64, d time.Duration, rc *redis.Client, ds ...*harness.Lockd) *mob {
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
	done := make(chan struct{})
	var feeling sync.WaitGroup
	feeling.Go(func() { m.feel(rc, done) })
	wg.Wait()
	close(done)
	feeling.Wait()
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
		if len(n.given) < 10 {
			m.t.Errorf("%s: %d grants only: this shows nothing", name, len(n.given))
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
	seed, err := strconv.ParseUint(os.Getenv("LOCKD_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	clean := func() {
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
	t.Run("warm up", func(t *testing.T) { useMob(t, seed, time.Second, rc, a, b) })
	clean()
	before := []float64{a.Metric("go_goroutines"), b.Metric("go_goroutines")}
	t.Run("use", func(t *testing.T) { useMob(t, seed+1, 6*time.Second, rc, a, b).judge() })
	clean()
	for i, d := range []*harness.Lockd{a, b} {
		harness.Until(t, "the goroutines are back", func() bool { return d.Metric("go_goroutines") <= before[i] })
	}
}
