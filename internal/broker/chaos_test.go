package broker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// chaos is a Store behind a bad network: calls are slow, replies get lost, commands are executed late or not at all,
// and at times nothing can be reached. It keeps the Store's contract.
type chaos struct {
	lock.Store
	lies lie           // the planted bug
	tick time.Duration // all times are multiples of it

	late sync.WaitGroup // commands still under way

	exec sync.Mutex // held while a command is executed, so that forced knows the order
	// forced are the forced releases of each name, guarded by exec.
	forced map[string][]force
	// notes are what was executed for each name, guarded by exec.
	notes map[string][]note

	mu sync.Mutex // guards the fields below
	// returned is when a broker began to give back the hold of a name with a fence.
	returned map[string]time.Time
	rng      *rand.Rand
	calm     bool // no more faults
	down     bool
	ears     map[int]func(lock.Notice)
	control  map[int]func(string)
	lastEar  int
}

// lie is what a store grants now and then though it is held.
type lie string

const (
	noLie      lie = ""
	oneLie     lie = "one name"
	severalLie lie = "several names"
)

// force is a forced release: no hold with a fence up to this one, or of which was told before it was over, counts from
// then on.
type force struct {
	at    time.Time
	fence lock.Fence
	over  time.Time
}

func newChaos(store lock.Store, seed uint64) *chaos {
	return &chaos{
		Store: store, rng: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a test
		forced: make(map[string][]force), notes: make(map[string][]note),
		returned: make(map[string]time.Time), ears: make(map[int]func(lock.Notice)), control: make(map[int]func(string)),
	}
}

// note is one line of what was executed, for people.
type note struct {
	at   time.Time
	text string
}

func (c *chaos) note(name, format string, args ...any) {
	c.notes[name] = append(c.notes[name], note{time.Now(), fmt.Sprintf(format, args...)})
}

// fate is what happens to one call.
type fate struct {
	before, after time.Duration // on the way there and back
	refused       bool          // surely not done
	lost          bool          // the reply is lost
	late          time.Duration // executed only then; the reply is lost
}

func (c *chaos) fate() fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calm {
		return fate{}
	}
	f := fate{before: c.upTo(10 * time.Millisecond), after: c.upTo(10 * time.Millisecond)}
	switch n := c.rng.IntN(100); {
	case c.down && n < 50:
		f.refused = true
	case c.down:
		f.lost, f.late = true, time.Second+c.upTo(2*time.Second)
	case n < 4:
		f.refused = true
	case n < 8:
		f.lost, f.after = true, c.upTo(time.Second)
	case n < 12:
		f.lost, f.late = true, c.upTo(3*time.Second)
	case n < 14:
		f.after = c.upTo(2 * time.Second)
	case n < 16:
		f.before = c.upTo(2 * time.Second)
	}
	return f
}

func (c *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(d))).Truncate(c.tick)
}

// meet makes a call meet its fate.
func meet[T any](ctx context.Context, c *chaos, do func(ctx context.Context) (T, error)) (T, error) {
	f := c.fate()
	var none T
	if f.refused || ctx.Err() != nil {
		return none, lock.ErrUnavailable
	}
	ctx = context.WithoutCancel(ctx) // what is sent is sent
	execute := func() (T, error) {
		c.exec.Lock()
		defer c.exec.Unlock()
		return do(ctx)
	}
	if f.late > 0 {
		c.late.Go(func() { time.Sleep(f.late); _, _ = execute() })
		time.Sleep(f.after)
		return none, lock.ErrOutcomeUnknown
	}
	time.Sleep(f.before)
	v, err := execute()
	time.Sleep(f.after)
	if f.lost {
		return none, lock.ErrOutcomeUnknown
	}
	return v, err
}

func (c *chaos) Acquire(ctx context.Context, claim lock.Claim) (lock.Grant, error) {
	return meet(ctx, c, func(ctx context.Context) (lock.Grant, error) {
		g, err := c.Store.Acquire(ctx, claim)
		c.note(claim.Name, "acquire %+v: %+v, %v", claim, g, err)
		if c.lies == oneLie && isError(err, lock.ErrHeld) && c.chance(5) {
			_, _ = c.Store.ForceRelease(ctx, claim.Name, claim.Kind)
			return c.Store.Acquire(ctx, claim)
		}
		return g, err
	})
}

func (c *chaos) chance(percent int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(100) < percent
}

func (c *chaos) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if r.Remaining == 0 {
		c.mu.Lock()
		if key := fmt.Sprint(r.Name, " ", r.Fence); c.returned[key].IsZero() {
			c.returned[key] = time.Now()
		}
		c.mu.Unlock()
	}
	return meet(ctx, c, func(ctx context.Context) (lock.Returned, error) {
		res, err := c.Store.Release(ctx, r)
		c.note(r.Name, "release %+v %+v: %+v, %v", r, r.Next, res, err)
		return res, err
	})
}

// StartAcquire is Acquire in a goroutine of its own.
func (c *chaos) StartAcquire(claim lock.Claim, done func(lock.Grant, error)) {
	go func() { done(c.Acquire(context.Background(), claim)) }()
}

// StartRelease is Release in a goroutine of its own.
func (c *chaos) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	go func() { done(c.Release(context.Background(), r)) }()
}

func (c *chaos) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	rs = slices.Clone(rs) // what is executed late is what was asked
	answers, err := meet(ctx, c, func(ctx context.Context) ([]error, error) {
		answers := make([]error, len(rs))
		c.Store.Renew(ctx, rs, func(i int, err error) {
			answers[i] = err
			c.note(rs[i].Name, "renew %+v: %v", rs[i], err)
		})
		return answers, nil
	})
	for i := range rs {
		if err == nil {
			done(i, answers[i])
		} else {
			done(i, err)
		}
	}
}

func (c *chaos) Extend(ctx context.Context, r lock.Renewal) (time.Duration, error) {
	return meet(ctx, c, func(ctx context.Context) (time.Duration, error) {
		left, err := c.Store.Extend(ctx, r)
		c.note(r.Name, "extend %+v: %v, %v", r, left, err)
		return left, err
	})
}

// Shorten is never executed after it returned.
func (c *chaos) Shorten(ctx context.Context, r lock.Renewal) error {
	var mu sync.Mutex
	returned := false
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		returned = true
	}()
	_, err := meet(ctx, c, func(ctx context.Context) (struct{}, error) {
		mu.Lock()
		defer mu.Unlock()
		if returned {
			return struct{}{}, lock.ErrUnavailable
		}
		err := c.Store.Shorten(ctx, r)
		c.note(r.Name, "shorten %+v: %v", r, err)
		return struct{}{}, err
	})
	return err
}

// StartExtend is Extend in a goroutine of its own.
func (c *chaos) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	go func() { done(c.Extend(context.Background(), r)) }()
}

func (c *chaos) Raise(ctx context.Context, claim lock.Claim) (lock.Fence, error) {
	return meet(ctx, c, func(ctx context.Context) (lock.Fence, error) {
		f, err := c.Store.Raise(ctx, claim)
		c.note(claim.Name, "raise %+v: %d, %v", claim, f, err)
		return f, err
	})
}

func (c *chaos) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	return meet(ctx, c, func(ctx context.Context) ([]lock.Grant, error) {
		gs, err := c.Store.AcquireAll(ctx, cs)
		for _, claim := range cs {
			c.note(claim.Name, "acquire %+v: %+v, %v", cs, gs, err)
		}
		if c.lies == severalLie && isError(err, lock.ErrHeld) && c.chance(30) {
			for _, claim := range cs {
				_, _ = c.Store.ForceRelease(ctx, claim.Name, claim.Kind)
			}
			return c.Store.AcquireAll(ctx, cs)
		}
		return gs, err
	})
}

func (c *chaos) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	return meet(ctx, c, func(ctx context.Context) ([]int, error) {
		positions, err := c.Store.Enlist(ctx, name, owners, place)
		c.note(name, "enlist %q: %v, %v", owners, positions, err)
		return positions, err
	})
}

func (c *chaos) Leave(ctx context.Context, name string, k lock.Kind, owners []lock.Owner) error {
	_, err := meet(ctx, c, func(ctx context.Context) (struct{}, error) {
		err := c.Store.Leave(ctx, name, k, owners)
		c.note(name, "leave %q: %v", owners, err)
		return struct{}{}, err
	})
	return err
}

func (c *chaos) Look(ctx context.Context, name string) (lock.State, error) {
	return meet(ctx, c, func(ctx context.Context) (lock.State, error) { return c.Store.Look(ctx, name) })
}

func (c *chaos) Probe(ctx context.Context) (string, error) {
	if c.isDown() {
		return "", lock.ErrUnavailable
	}
	return c.Store.Probe(ctx)
}

// ForceRelease is never disturbed, so that it is known when it happens.
func (c *chaos) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	c.exec.Lock()
	defer c.exec.Unlock()
	st, err := c.Store.Look(ctx, name)
	if err != nil {
		return false, fmt.Errorf("look: %w", err)
	}
	released, err := c.Store.ForceRelease(ctx, name, k)
	c.note(name, "force %v: %v, %v", k, released, err)
	if released {
		c.forced[name] = append(c.forced[name], force{time.Now(), st.Fence, time.Now()})
	}
	return released, err
}

// whenReturned is when a broker began to give back a hold, or now.
func (c *chaos) whenReturned(h session.Hold) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.returned[fmt.Sprint(h.Name, " ", h.Fence)]; ok {
		return at
	}
	return time.Now()
}

func (c *chaos) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// setDown begins or ends an outage. At its end all listeners learn that they may have missed something.
func (c *chaos) setDown(down bool) {
	c.mu.Lock()
	c.down = down
	ears, control := make([]func(lock.Notice), 0, len(c.ears)), make([]func(string), 0, len(c.control))
	for _, notify := range c.ears {
		ears = append(ears, notify)
	}
	for _, notify := range c.control {
		control = append(control, notify)
	}
	c.mu.Unlock()
	if down {
		return
	}
	for _, notify := range ears {
		notify(lock.Notice{What: lock.NoticeListening})
	}
	for _, notify := range control {
		notify("")
	}
}

// calmDown ends all faults.
func (c *chaos) calmDown() {
	c.setDown(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = true
}

func (c *chaos) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	deaf := c.Store.Listen(name, kind, func(n lock.Notice) {
		if !c.isDown() {
			notify(n)
		}
	})
	return c.add(func(id int) { c.ears[id] = notify }, func(id int) { delete(c.ears, id); deaf() })
}

func (c *chaos) ListenForced(notify func(string)) (stop func()) {
	deaf := c.Store.ListenForced(func(name string) {
		if !c.isDown() {
			notify(name)
		}
	})
	return c.add(func(id int) { c.control[id] = notify }, func(id int) { delete(c.control, id); deaf() })
}

func (c *chaos) add(put, remove func(id int)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastEar++
	id := c.lastEar
	put(id)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		remove(id)
	}
}
