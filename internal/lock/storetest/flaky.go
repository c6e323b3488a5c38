package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Fate is what becomes of one call of a Flaky store.
type Fate uint8

// The fates.
const (
	// Deliver passes the call and its result on.
	Deliver Fate = iota
	// LoseReply executes the call; the caller gets ErrOutcomeUnknown.
	LoseReply
	// LoseRequest does nothing; the caller gets ErrOutcomeUnknown.
	LoseRequest
	// Delay gives the caller ErrOutcomeUnknown; RunLate executes the call.
	Delay
	// Refuse does nothing; the caller gets ErrUnavailable.
	Refuse
)

// Op is a method of lock.Store.
type Op uint8

// The operations that have fates.
const (
	OpAcquire Op = iota + 1
	OpRelease
	OpRenew
	OpForceRelease
	OpLook
	OpList
	OpProbe
	OpAcquireAll
	OpEnlist
	OpLeave
	OpQueue
	OpExtend
	OpSetLimit
	OpShorten
	OpTakeSession
	OpKeepSession
	OpEndSession
	OpSucceed
)

// errPlanned is the cause of all errors a Flaky store makes up.
var errPlanned = errors.New("a fault of the test")

// Flaky is a Store that loses requests and replies as a test wants. It makes no faults of its own accord, and may be
// used from many goroutines.
type Flaky struct {
	lock.Store

	mu     sync.Mutex // guards the fields below
	choose func(op Op, name string) Fate
	queued []queuedFate
	late   []func(context.Context)
	calls  map[Op]int
}

type queuedFate struct {
	op   Op
	fate Fate
}

var _ lock.Store = (*Flaky)(nil)

// NewFlaky wraps a Store.
func NewFlaky(s lock.Store) *Flaky { return &Flaky{Store: s, calls: map[Op]int{}} }

// Next sets the fates of the next calls of an operation, in order. They go before Choose.
func (f *Flaky) Next(op Op, fates ...Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fate := range fates {
		f.queued = append(f.queued, queuedFate{op, fate})
	}
}

// Choose lets a function decide from now on; nil delivers everything. The name is empty for List and Probe, and that
// of the first hold for Renew and AcquireAll. It is called with a mutex held and must not call the Store.
func (f *Flaky) Choose(choose func(op Op, name string) Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
}

// Calls is how often an operation was called so far.
func (f *Flaky) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// RunLate executes the calls that were delayed, oldest first, and says how many there were.
func (f *Flaky) RunLate(ctx context.Context) int {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, run := range late {
		run(ctx)
	}
	return len(late)
}

// fate decides about a call and counts it.
func (f *Flaky) fate(op Op, name string) Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	for i, q := range f.queued {
		if q.op == op {
			f.queued = append(f.queued[:i:i], f.queued[i+1:]...)
			return q.fate
		}
	}
	if f.choose != nil {
		return f.choose(op, name)
	}
	return Deliver
}

// call makes a call meet its fate. A delayed call must not use the ctx of its caller, which may have ended by then.
func (f *Flaky) call(ctx context.Context, op Op, name string, do func(context.Context) error) error {
	switch f.fate(op, name) {
	case LoseReply:
		_ = do(ctx) // that is the fault
	case LoseRequest:
	case Delay:
		f.mu.Lock()
		f.late = append(f.late, func(ctx context.Context) { _ = do(ctx) })
		f.mu.Unlock()
	case Refuse:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errPlanned)
	default:
		return do(ctx)
	}
	return fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, errPlanned)
}

// reply is call for an operation with a result, which is the zero value unless it is delivered.
func reply[R any](ctx context.Context, f *Flaky, op Op, name string, do func(context.Context) (R, error)) (R, error) {
	var mu sync.Mutex // a delayed call runs in another goroutine
	var res R
	err := f.call(ctx, op, name, func(ctx context.Context) error {
		r, err := do(ctx)
		mu.Lock()
		defer mu.Unlock()
		res = r
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	if errors.Is(err, errPlanned) {
		return *new(R), err
	}
	return res, err
}

// StartAcquire has the fate of an Acquire.
func (f *Flaky) StartAcquire(claim lock.Claim, done func(lock.Grant, error)) {
	go func() { done(f.Acquire(context.Background(), claim)) }()
}

// StartRelease has the fate of a Release.
func (f *Flaky) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	go func() { done(f.Release(context.Background(), r)) }()
}

// StartExtend has the fate of an Extend.
func (f *Flaky) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	go func() { done(f.Extend(context.Background(), r)) }()
}

// Acquire implements lock.Store.
func (f *Flaky) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	return reply(ctx, f, OpAcquire, c.Name, func(ctx context.Context) (lock.Grant, error) {
		return f.Store.Acquire(ctx, c)
	})
}

// AcquireAll implements lock.Store.
func (f *Flaky) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	first := ""
	if len(cs) > 0 {
		first = cs[0].Name
	}
	kept := slices.Clone(cs) // the caller may reuse its slice
	return reply(ctx, f, OpAcquireAll, first, func(ctx context.Context) ([]lock.Grant, error) {
		return f.Store.AcquireAll(ctx, kept)
	})
}

// Enlist implements lock.Store.
func (f *Flaky) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	kept := slices.Clone(owners)
	return reply(ctx, f, OpEnlist, name, func(ctx context.Context) ([]int, error) {
		return f.Store.Enlist(ctx, name, kept, place)
	})
}

// Leave implements lock.Store.
func (f *Flaky) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	kept := slices.Clone(owners)
	return f.call(ctx, OpLeave, name, func(ctx context.Context) error {
		return f.Store.Leave(ctx, name, kind, kept)
	})
}

// Queue implements lock.Store.
func (f *Flaky) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	return reply(ctx, f, OpQueue, name, func(ctx context.Context) ([]lock.Owner, error) {
		return f.Store.Queue(ctx, name, from, size)
	})
}

// Release implements lock.Store.
func (f *Flaky) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	return reply(ctx, f, OpRelease, r.Name, func(ctx context.Context) (lock.Returned, error) {
		return f.Store.Release(ctx, r)
	})
}

// Renew implements lock.Store. All holds of one call share its fate.
func (f *Flaky) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	first := ""
	if len(rs) > 0 {
		first = rs[0].Name
	}
	delivered := false
	kept := slices.Clone(rs) // the caller may reuse its slice
	results := make([]error, len(rs))
	var mu sync.Mutex // Renew may call done at the same time for several
	err := f.call(ctx, OpRenew, first, func(ctx context.Context) error {
		delivered = true
		f.Store.Renew(ctx, kept, func(i int, err error) {
			mu.Lock()
			defer mu.Unlock()
			results[i] = err
		})
		return nil
	})
	for i := range rs {
		if err != nil {
			done(i, err)
		} else if delivered {
			done(i, results[i])
		}
	}
}

// Extend implements lock.Store.
func (f *Flaky) Extend(ctx context.Context, r lock.Renewal) (time.Duration, error) {
	return reply(ctx, f, OpExtend, r.Name,
		func(ctx context.Context) (time.Duration, error) { return f.Store.Extend(ctx, r) })
}

// ForceRelease implements lock.Store. It is never executed late, so one that is delayed is lost.
func (f *Flaky) ForceRelease(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	err = f.nowOrNever(ctx, OpForceRelease, name, func(ctx context.Context) (err error) {
		held, err = f.Store.ForceRelease(ctx, name, kind)
		return err
	})
	return held && err == nil, err
}

// SetLimit implements lock.Store.
func (f *Flaky) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	return reply(ctx, f, OpSetLimit, name, func(ctx context.Context) (uint32, error) {
		return f.Store.SetLimit(ctx, name, limit)
	})
}

// Shorten implements lock.Store. It is never executed late, so one that is delayed is lost.
func (f *Flaky) Shorten(ctx context.Context, r lock.Renewal) error {
	return f.nowOrNever(ctx, OpShorten, r.Name, func(ctx context.Context) error { return f.Store.Shorten(ctx, r) })
}

// nowOrNever executes a call before it returns, or not at all.
func (f *Flaky) nowOrNever(ctx context.Context, op Op, name string, do func(context.Context) error) error {
	returned := false
	var mu sync.Mutex
	defer func() { mu.Lock(); returned = true; mu.Unlock() }()
	return f.call(ctx, op, name, func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if returned {
			return fmt.Errorf("%w: %w", lock.ErrUnavailable, errPlanned)
		}
		return do(ctx)
	})
}

// Look implements lock.Store.
func (f *Flaky) Look(ctx context.Context, name string) (lock.State, error) {
	return reply(ctx, f, OpLook, name, func(ctx context.Context) (lock.State, error) {
		return f.Store.Look(ctx, name)
	})
}

// List implements lock.Store.
func (f *Flaky) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	var next string
	page, err := reply(ctx, f, OpList, "", func(ctx context.Context) ([]lock.State, error) {
		page, n, err := f.Store.List(ctx, prefix, cursor, size)
		next = n
		return page, err
	})
	if err != nil {
		next = ""
	}
	return page, next, err
}

// Probe implements lock.Store.
func (f *Flaky) Probe(ctx context.Context) (string, error) {
	return reply(ctx, f, OpProbe, "", f.Store.Probe)
}

// TakeSession implements lock.Store.
func (f *Flaky) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	return f.call(ctx, OpTakeSession, r.ID, func(ctx context.Context) error { return f.Store.TakeSession(ctx, r, ttl) })
}

// StartKeepSession implements lock.Store.
func (f *Flaky) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		done(f.call(context.Background(), OpKeepSession, k.ID, func(context.Context) error {
			told := make(chan error, 1)
			f.Store.StartKeepSession(k, func(err error) { told <- err })
			return <-told
		}))
	}()
}

// EndSession implements lock.Store.
func (f *Flaky) EndSession(ctx context.Context, id string, epoch uint64) error {
	return f.call(ctx, OpEndSession, id, func(ctx context.Context) error { return f.Store.EndSession(ctx, id, epoch) })
}

// Succeed implements lock.Store.
func (f *Flaky) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	return reply(ctx, f, OpSucceed, name, func(ctx context.Context) (int, error) {
		return f.Store.Succeed(ctx, name, from, to, place)
	})
}
