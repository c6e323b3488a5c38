package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	mobTTL   = time.Second // of its sessions, and its longest lease
	mobLimit = 3           // of its semaphores
)

// ledger is what is known of names that many use at once. Who was told that a hold is lost does not count.
type ledger struct {
	mu    sync.Mutex // guards the fields below
	names map[string]*entry
}

// entry is what is known of a name.
type entry struct {
	kind   client.Kind // Read stands for readers and writers
	forced bool        // is released by force: nobody surely has it

	holds  map[key]share
	given  map[uint64]bool // fences of grants
	last   uint64          // the greatest of those who had it alone
	told   map[uint64]int  // how often the end of a fence was told
	merged bool            // ends were told without their fences
}

// key is a grant, such as a lock of the SDK.
type key interface {
	Fence() uint64
	Err() error
}

// forged is a key that the SDK did not give.
type forged struct{ fence uint64 }

func (f *forged) Fence() uint64 { return f.fence }
func (f *forged) Err() error    { return nil }

func (l *ledger) name(name string, kind client.Kind, forced bool) {
	if l.names == nil {
		l.names = map[string]*entry{}
	}
	l.names[name] = &entry{
		kind: kind, forced: forced, holds: map[key]share{}, told: map[uint64]int{}, given: map[uint64]bool{},
	}
}

// share is what a hold takes of a name: it is there alone, or is so many that share it.
type share struct{ alone, shared int }

func shareOf(k client.Kind, permits int) share {
	switch k {
	case client.Read:
		return share{shared: 1}
	case client.Semaphore:
		return share{shared: permits}
	default:
		return share{alone: 1}
	}
}

// granted notes a hold, and says what is wrong with it.
func (l *ledger) granted(name string, k client.Kind, permits int, by key) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, fence, takes := l.names[name], by.Fence(), shareOf(k, permits)
	if n.given[fence] && k != client.Semaphore {
		err = fmt.Errorf("fence %d of %s was given twice", fence, name)
	}
	if takes.alone > 0 && !n.forced && by.Err() == nil {
		if fence <= n.last {
			err = fmt.Errorf("fence %d of %s after %d", fence, name, n.last)
		}
		n.last = fence
	}
	n.given[fence] = true
	n.holds[by] = takes
	var sum share
	for holder, s := range n.holds {
		if holder.Err() == nil {
			sum.alone, sum.shared = sum.alone+s.alone, sum.shared+s.shared
		}
	}
	if !n.forced && (sum.alone > 1 || sum.alone == 1 && sum.shared > 0 || k == client.Semaphore && sum.shared > mobLimit) {
		err = errors.Join(err, fmt.Errorf("%d have %s for themselves, %d share it", sum.alone, name, sum.shared))
	}
	return err
}

// leaves notes that somebody does not surely have a hold any more.
func (l *ledger) leaves(name string, by key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names[name].holds, by)
}

// A checker that cannot fail proves nothing.
func TestALedgerCatchesALockThatDoesNotLock(t *testing.T) {
	for what, row := range map[string]struct {
		kinds  []client.Kind
		fences []uint64
		leaves bool
		wrong  bool
	}{
		"one after the other":  {[]client.Kind{client.Fair, client.Fair}, []uint64{5, 6}, true, false},
		"two holders":          {[]client.Kind{client.Fair, client.Fair}, []uint64{5, 6}, false, true},
		"a fence of before":    {[]client.Kind{client.Fair, client.Fair}, []uint64{5, 4}, true, true},
		"a fence given twice":  {[]client.Kind{client.Read, client.Read}, []uint64{5, 5}, true, true},
		"two readers":          {[]client.Kind{client.Read, client.Read}, []uint64{5, 6}, false, false},
		"a reader at a writer": {[]client.Kind{client.Write, client.Read}, []uint64{5, 6}, false, true},
		"too many permits":     {[]client.Kind{client.Semaphore, client.Semaphore}, []uint64{5, 6}, false, true},
	} {
		var l ledger
		l.name("job", row.kinds[0], false)
		var err error
		for i, k := range row.kinds {
			by := &forged{row.fences[i]}
			err = errors.Join(err, l.granted("job", k, 2, by))
			if row.leaves {
				l.leaves("job", by)
			}
		}
		if (err != nil) != row.wrong {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// mob are clients of two replicas that do all that clients can do with few names, at once.
type mob struct {
	ledger
	t      *testing.T
	at     []*harness.Lockd
	over   time.Time
	counts map[string]int // guarded by mu
}

func newMob(t *testing.T, d time.Duration, at ...*harness.Lockd) *mob {
	m := &mob{t: t, at: at, over: time.Now().Add(d), counts: map[string]int{}}
	for name, kind := range map[string]client.Kind{
		"exclusive": client.Exclusive, "fair": client.Fair, "book": client.Read, "pool": client.Semaphore,
	} {
		m.name(name, kind, false)
		m.name(name+" by force", kind, true)
	}
	return m
}

// lasts says whether it goes on: for its time, and until each name was granted.
func (m *mob) lasts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.names {
		if len(n.given) == 0 && time.Since(m.over) < harness.Patience {
			return true
		}
	}
	return time.Now().Before(m.over)
}

func (m *mob) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// note takes what is wrong.
func (m *mob) note(err error) {
	if err != nil {
		m.t.Error(err)
	}
}

// pick is some names with what to ask for of each.
func (m *mob) pick(rng *rand.Rand) (items []client.Item) {
	names := slices.Sorted(maps.Keys(m.names))
	n := 1
	if rng.IntN(6) == 0 {
		n = 2 + rng.IntN(2)
	}
	for _, i := range rng.Perm(len(names))[:n] {
		item := client.Item{Name: names[i], Kind: m.names[names[i]].kind}
		switch {
		case item.Kind == client.Read && rng.IntN(3) == 0:
			item.Kind = client.Write
		case item.Kind == client.Semaphore:
			item.Permits, item.Limit = uint32(1+rng.IntN(2)), mobLimit
		}
		items = append(items, item)
	}
	return items
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// beClient is one session after the other until the end. Some of them say goodbye, and others break off.
func (m *mob) beClient(i int, rng *rand.Rand) {
	for m.lasts() {
		link := redistest.StartProxy(m.t, m.at[i%len(m.at)].Addr)
		opts := []client.Option{client.WithSessionTTL(mobTTL)}
		if rng.IntN(2) == 0 {
			opts = append(opts, client.WithReleaseOnDisconnect())
		}
		c, err := client.Dial(link.Addr, opts...)
		if err != nil {
			m.t.Error(err)
			return
		}
		for m.lasts() && m.act(c, rng) {
		}
		if rng.IntN(2) == 0 {
			link.Set(redistest.Cut)
			link.CutAll()
			m.count("broken off")
		}
		_ = c.Close() // who broke off is not heard
	}
}

// act asks for something once, and leaves it. It returns false when the session is to end.
func (m *mob) act(c *client.Client, rng *rand.Rand) bool {
	items, opts, try := m.pick(rng), []client.LockOption{}, false
	ctx, cancel := context.WithTimeout(m.t.Context(), harness.Patience)
	defer cancel()
	switch rng.IntN(6) {
	case 0:
		try = true
	case 1:
		opts = append(opts, client.Wait(upTo(rng, 200*time.Millisecond)))
	case 2:
		time.AfterFunc(upTo(rng, 2*time.Millisecond), cancel)
	}
	if rng.IntN(3) == 0 {
		opts = append(opts, client.Lease(mobTTL))
	}
	locks, err := m.take(ctx, c, items, opts, try, rng)
	if err != nil {
		m.count(fmt.Sprintf("refused %v", client.Reason(err)))
		if ctx.Err() == context.DeadlineExceeded {
			m.t.Errorf("no answer for %v in %v", items, harness.Patience)
		}
		return !errors.Is(err, client.ErrLost)
	}
	m.count("granted")
	for i, l := range locks {
		m.note(m.granted(l.Name(), l.Kind(), int(items[i].Permits), l))
	}
	time.Sleep(upTo(rng, 2*time.Millisecond))
	for _, l := range locks {
		m.leaves(l.Name(), l)
	}
	if rng.IntN(80) == 0 {
		return false
	}
	for _, l := range locks {
		// On a slow machine a session may be over, and the outcome unknown, or the lease.
		err := l.Unlock(m.t.Context())
		late := errors.Is(err, client.ErrNotHeld) && !time.Now().Before(l.Deadline())
		if !excused(err) && !late && !m.names[l.Name()].forced && !errors.Is(err, client.ErrLost) {
			m.t.Errorf("release of %s: %v", l.Name(), err)
		}
	}
	return true
}

// take asks for one name, sometimes twice for one holder, or for several.
func (m *mob) take(ctx context.Context, c *client.Client, items []client.Item, opts []client.LockOption, try bool,
	rng *rand.Rand,
) ([]*client.Lock, error) {
	if len(items) > 1 {
		all := c.LockAll
		if try {
			all = c.TryLockAll
		}
		ls, err := all(ctx, items, opts...)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(items, func(a, b client.Item) int { return strings.Compare(a.Name, b.Name) })
		locks := ls.All()
		slices.SortFunc(locks, func(a, b *client.Lock) int { return strings.Compare(a.Name(), b.Name()) })
		return locks, nil
	}
	i, one := items[0], c.Lock
	if try {
		one = c.TryLock
	}
	nested := false
	if i.Kind == client.Semaphore {
		opts = append(opts, client.Permits(i.Permits, i.Limit))
	} else {
		opts = append(opts, client.As(i.Kind))
		if nested = rng.IntN(8) == 0; nested {
			opts = append(opts, client.Holder("me"))
		}
	}
	l, err := one(ctx, i.Name, opts...)
	if err != nil {
		return nil, err
	}
	if nested {
		if again, err := one(ctx, i.Name, opts...); err == nil {
			_ = again.Unlock(m.t.Context()) // it may be lost by force
			m.count("nested")
		}
	}
	return []*client.Lock{l}, nil
}

// beShell asks without a session.
func (m *mob) beShell(i int, rng *rand.Rand) {
	locks := lockdv1.NewLockServiceClient(m.at[i%len(m.at)].Connect(m.t))
	for m.lasts() {
		name := []string{"exclusive", "fair", "exclusive by force", "fair by force"}[rng.IntN(4)]
		req := &lockdv1.AcquireRequest{
			Name: name, Kind: lockdv1.LockKind(m.names[name].kind), Lease: durationpb.New(time.Minute),
			Wait: durationpb.New(upTo(rng, 300*time.Millisecond)),
		}
		got, err := locks.Acquire(m.t.Context(), req)
		if l := got.GetGranted(); err == nil && l != nil {
			by := &forged{l.GetFence()}
			m.note(m.granted(name, m.names[name].kind, 0, by))
			m.leaves(name, by)
			back := &lockdv1.ReleaseRequest{Name: name, Kind: req.GetKind(), LeaseId: l.GetLeaseId()}
			release := func() error { _, err := locks.Release(m.t.Context(), back); return client.FromStatus(err) }
			if err = release(); err != nil && excused(err) { // it may be done
				if err = whenBack(m.t, "a shell's release is answered", release); errors.Is(err, client.ErrNotHeld) {
					err = nil
				}
			}
			m.count("granted to a shell")
		}
		if err = client.FromStatus(err); !excused(err) && !m.names[name].forced {
			m.t.Errorf("a shell: %v", err)
		}
	}
}

// beOperator releases by force.
func (m *mob) beOperator(rng *rand.Rand) {
	admin := lockdv1.NewAdminServiceClient(m.at[0].Operate(m.t))
	for m.lasts() {
		time.Sleep(upTo(rng, 100*time.Millisecond))
		for name, n := range m.names {
			if !n.forced || rng.IntN(2) == 0 {
				continue
			}
			req := &lockdv1.ForceReleaseRequest{Name: name, Kind: lockdv1.LockKind(n.kind)}
			if _, err := admin.ForceRelease(m.t.Context(), req); !excused(client.FromStatus(err)) {
				m.t.Error(err)
			}
		}
	}
}

// watch counts the ends of holds, as they are told at the second replica.
func (m *mob) watch() {
	c := m.at[1].Dial(m.t, client.WithSessionTTL(10*time.Minute))
	for name, n := range m.names {
		events, err := c.Watch(m.t.Context(), name)
		if err != nil {
			m.t.Fatal(err)
		}
		go func() {
			for u := range events {
				m.mu.Lock()
				n.told[u.Fence]++
				n.merged = n.merged || u.Merged > 0 || u.Gap
				m.mu.Unlock()
			}
		}()
	}
}

// untold are names with grants whose ends were not told, or told more than once.
func (m *mob) untold() (found []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, n := range m.names {
		never, often := -n.told[0], 0
		for f := range n.given {
			if n.told[f] == 0 {
				never++
			} else if n.told[f] > 1 {
				often++
			}
		}
		if n.forced && n.kind == client.Semaphore { // what is taken of it at once is told once, see package watching
			never = 0
		}
		if often > 0 || never > 0 && !n.merged {
			found = append(found, fmt.Sprintf("%s: of %d grants %d ends were never told, and %d more than once", name,
				len(n.given), never, often))
		}
	}
	return found
}

// TestAMobIsServedAndLeavesNothing has many clients of two replicas do all that they can do with a few names at once.
// TEST_SEED repeats their choices.
func TestAMobIsServedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rs, a, b := twoReplicas(t, soonOver, "LOCKD_SESSION_MIN_TTL=1s", "LOCKD_REDIS_OP_TIMEOUT=1s") // see mobTTL
	before := []float64{a.Metric("go_goroutines"), b.Metric("go_goroutines")}
	// When this ends its clients leave.
	t.Run("use", func(t *testing.T) { newMob(t, tier.Pick(3*time.Second, 8*time.Second), a, b).play(seed) })
	settle(t, rs.Client(), a, b)
	const more = 10 // for connections to Redis
	for i, d := range []*harness.Lockd{a, b} {
		harness.Until(t, "the goroutines are back", func() bool { return d.Metric("go_goroutines") <= before[i]+more })
	}
}

// play lets a mob do what it wants until its time is over.
func (m *mob) play(seed uint64) {
	m.watch()
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) } //nolint:gosec // a test
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() { m.beClient(i, rng(i)) })
	}
	for i := range 4 {
		all.Go(func() { m.beShell(i, rng(100+i)) })
	}
	all.Go(func() { m.beOperator(rng(200)) })
	all.Wait()
	defer func() {
		if m.t.Failed() {
			m.t.Log(m.untold())
		}
	}()
	harness.Until(m.t, "each end is told once", func() bool { return len(m.untold()) == 0 })
	for name, n := range m.names {
		m.t.Logf("%s: %d grants", name, len(n.given))
		if len(n.given) == 0 {
			m.t.Errorf("%s: no grants: this shows nothing", name)
		}
	}
	m.t.Log(m.counts)
}

// settle waits until nobody knows of any client any more: leases run out within a TTL, channels are left 5 s later.
// What semaphores keep of their limits ends by itself.
func settle(t *testing.T, rc *redis.Client, ds ...*harness.Lockd) {
	t.Helper()
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("left are %q", left)
		}
	}()
	harness.Until(t, "no lock, no session and no subscription is left", func() bool {
		channels, err := rc.PubSubChannels(t.Context(), "*").Result()
		harness.Must(t, err)
		channels = slices.DeleteFunc(channels, func(c string) bool { // what all replicas always hear
			return c == "lockd:control" || strings.HasPrefix(c, "lockd:peers:")
		})
		left = slices.DeleteFunc(keys(t, rc), func(key string) bool {
			return strings.Contains(key, "pool") && rc.PTTL(t.Context(), key).Val() != -1
		})
		left = append(left, channels...)
		for _, d := range ds {
			for _, metric := range []string{"lockd_sessions", "lockd_waiters", "lockd_watched_names"} {
				if n := d.Metric(metric); n != 0 {
					left = append(left, fmt.Sprint(n, " ", metric))
				}
			}
		}
		return len(left) == 0
	})
}
