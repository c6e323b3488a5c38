package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Lock is a lock that was granted. It ends by Unlock or by being lost, once and for good. All methods may be called
// at any time from any goroutine.
type Lock struct {
	session    *session
	hold       holdKey
	fence      uint64
	acquiredBy uint64 // the request that took it, as the server knows it
	granted    instant
	annotation string
	values     context.Context // of the Lock call; only its values are used

	deadline atomic.Int64          // instant; moves earlier only by Shorten
	cause    atomic.Pointer[error] // nil while held; written under mu

	// Guarded by session.mu.
	auto       bool
	permits    uint32  // of a semaphore
	release    *call   // of an Unlock with an unknown outcome
	shortening *call   // the last Shorten of the hold that is not answered
	next       *Lock   // the next older Lock of the same reentrant hold
	before     lease   // of the hold without this Lock and the newer ones; of a reader
	queuedAt   instant // the place in the heap of deadlines
	index      int

	mu     sync.Mutex // guards the fields below, which are made when somebody asks for them; comes before Locks.mu
	set    *Locks     // that of LockAll
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}
}

// all are the Locks of one hold, from the newest on. The one at hand may be taken out. Needs session.mu.
func (l *Lock) all() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		for at := l; at != nil; {
			next := at.next
			if !yield(at) {
				return
			}
			at = next
		}
	}
}

// lease is until when a hold is surely held, and whether the server renews it.
type lease struct {
	deadline instant
	auto     bool
}

// holdKey is how a hold is known inside a session.
type holdKey struct {
	name   string
	kind   lockdv1.LockKind
	holder string
}

// Name is the name that is locked.
func (l *Lock) Name() string { return l.hold.name }

// Kind is how it is locked.
func (l *Lock) Kind() Kind { return Kind(l.hold.kind) }

// Fence is the token of this grant. Give it to the resource with each access: later grants of the name have greater
// ones, so a resource that refuses a fence smaller than the greatest it has seen is safe from late holders.
func (l *Lock) Fence() uint64 { return l.fence }

// Deadline is until when the lock is surely held, as far as it is known now. It moves on while the lease is renewed,
// and back only by Shorten.
func (l *Lock) Deadline() time.Time { return l.session.client.base.Add(time.Duration(l.end())) }

// ValidFor is the time until Deadline, 0 if the lock has ended.
func (l *Lock) ValidFor() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(time.Duration(l.end()-l.session.client.now()), 0)
}

// Err is nil while the lock is held, then a *LostError or ErrUnlocked. It looks at the clock: a process that was
// stopped past the deadline is told so by its first call.
func (l *Lock) Err() error {
	l.check()
	if cause := l.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Context ends when the lock ends; its Cause is then what Err returns. It carries the values of the context given
// to Lock, but neither its end nor its deadline. Like Err it looks at the clock in its own Err and Done; contexts
// made from it are told by a timer.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	if l.ctx == nil {
		inner, cancel := context.WithCancelCause(context.WithoutCancel(l.values))
		l.ctx, l.cancel = &lockContext{Context: inner, held: l}, cancel
		if cause := l.cause.Load(); cause != nil {
			cancel(*cause)
		}
	}
	ctx := l.ctx
	l.mu.Unlock()
	l.check()
	return ctx
}

// Lost is closed when the lock is lost, but not by Unlock.
func (l *Lock) Lost() <-chan struct{} {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = make(chan struct{})
		if cause := l.cause.Load(); cause != nil && errors.Is(*cause, ErrLost) {
			close(l.lost)
		}
	}
	lost := l.lost
	l.mu.Unlock()
	l.check()
	return lost
}

// Unlock gives the lock back. The lock's context ends before the server is asked, so nobody else can hold the name
// while it still looks held here.
//
// It returns a *LostError if the lock had been lost, ErrNotHeld if it was unlocked before or the server knows of a
// loss that had not arrived yet, and ErrOutcomeUnknown if the answer did not come: the name is then free at the
// latest when the lease ends, as nobody renews it. A later Unlock waits for the same answer again; when the session has
// ended it does not come any more.
func (l *Lock) Unlock(ctx context.Context) error {
	release, err := l.giveBack()
	if err != nil {
		return l.fail("unlock", notHeld(err))
	}
	return l.released(ctx, release, l.session.client.answerBound(ctx))
}

// giveBack begins an Unlock, or goes on with one whose answer did not come, or returns what ended the lock before.
func (l *Lock) giveBack() (*call, error) {
	err := l.Err()
	if err == nil {
		release := l.releaseCall()
		if l.session.giveBack(l, release) {
			return release, nil
		}
		err = l.Err()
	}
	if release := l.swapRelease(nil); release != nil {
		return release, nil
	}
	return nil, err
}

// released waits for the end of an Unlock.
func (l *Lock) released(ctx context.Context, release *call, bound time.Duration) error {
	a, err := l.session.await(ctx, release, bound)
	switch {
	case err != nil:
		l.swapRelease(release)
	case errors.Is(a.err, errSessionOver):
		err = a.err
		release.answer <- a // for the next Unlock: nobody knows more
		l.swapRelease(release)
	case a.err != nil:
		return l.fail("unlock", a.err)
	default:
		l.session.answered(release)
		return nil
	}
	return l.fail("unlock", fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
}

// swapRelease keeps the call of an Unlock with an unknown outcome, and returns the one that was kept.
func (l *Lock) swapRelease(release *call) *call {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	kept := l.release
	l.release = release
	return kept
}

// notHeld makes what ended a lock the answer to a second Unlock.
func notHeld(err error) error {
	if errors.Is(err, ErrUnlocked) {
		return ErrNotHeld
	}
	return err
}

func (l *Lock) fail(verb string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, quoted(l.hold.name), err)
}

func (l *Lock) end() instant { return instant(l.deadline.Load()) }

// check ends the lock if its deadline has passed, without waiting for any timer.
func (l *Lock) check() {
	if l.cause.Load() == nil && l.session.client.now() >= l.end() {
		l.session.expire(l)
	}
}

// unlocked is the cause of all locks that ended by Unlock.
var unlocked = ErrUnlocked

// finish ends the lock; only the first cause counts.
func (l *Lock) finish(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause.Load() != nil {
		return
	}
	at := &unlocked
	if !errors.Is(cause, ErrUnlocked) {
		at = new(error)
		*at = cause
	}
	l.cause.Store(at)
	if l.cancel != nil {
		l.cancel(cause)
	}
	if l.lost != nil && errors.Is(cause, ErrLost) {
		close(l.lost)
	}
	if l.set != nil {
		l.set.ended(cause)
	}
}

// join makes the lock a part of a set, which may be told at once that the lock has ended.
func (l *Lock) join(set *Locks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = set
	if cause := l.cause.Load(); cause != nil {
		set.ended(*cause)
	}
}

// releaseCall is the call of an Unlock.
func (l *Lock) releaseCall() *call {
	c := &releaseCall{}
	c.release.Name, c.release.Kind, c.release.Holder, c.release.Fence = l.hold.name, l.hold.kind, l.hold.holder, l.fence
	c.arm.Release = &c.release
	c.request.Message = &c.arm
	c.call.request, c.answer, c.frees = &c.request, l.session.channel(), l
	return &c.call
}

func (l *Lock) releaseRequest() *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
		Name: l.hold.name, Kind: l.hold.kind, Holder: l.hold.holder, Fence: l.fence,
	}}}
}

// lockContext looks at the deadline before it says that all is well. Its Done is the channel of the context inside, so
// that package context finds that one and needs no goroutine for contexts made from this one. It has no Deadline of
// its own: that of a lock moves, and package context would trust the first answer.
type lockContext struct {
	context.Context
	held held
}

// held is a Lock, or Locks.
type held interface {
	Err() error
	check()
}

// Done is closed when the lock has ended.
func (c *lockContext) Done() <-chan struct{} {
	c.held.check()
	return c.Context.Done()
}

// Err is context.Canceled when the lock has ended.
func (c *lockContext) Err() error {
	if c.held.Err() != nil {
		return context.Canceled
	}
	return c.Context.Err()
}
