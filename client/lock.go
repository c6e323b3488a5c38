package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Lock is a lock that was granted. It ends by Unlock or by being lost, once and for good. All methods may be called
// at any time from any goroutine.
type Lock struct {
	ending
	own        hold   // the hold, if this is its first Lock
	set        *Locks // that of LockAll, or nil
	fence      uint64
	acquiredBy uint64 // the request that took it, as the server knows it
	granted    instant
	annotation string
	release    atomic.Pointer[call] // of an Unlock with an unknown outcome

	// Guarded by Client.mu.
	hold    *hold  // does not change once the Lock was granted
	permits uint32 // of a semaphore
}

func (s *session) newLock(values context.Context, h *lockdv1.Hold) *Lock {
	l := &Lock{
		ending: ending{session: s, values: values}, own: hold{key: keyOf(h)},
		fence: h.GetFence(), acquiredBy: h.GetAcquiredBy(), granted: s.client.now(),
	}
	l.of, l.hold = l, &l.own
	return l
}

// Name is the name that is locked.
func (l *Lock) Name() string { return l.hold.key.name }

// Kind is how it is locked.
func (l *Lock) Kind() Kind { return Kind(l.hold.key.kind) }

// Fence is the token of this grant. Give it to the resource with each access: later grants of the name have greater
// ones, so a resource that refuses a fence smaller than the greatest it has seen is safe from late holders.
func (l *Lock) Fence() uint64 { return l.fence }

// Unlock releases the lock. The lock's context ends before the server is asked, so nobody else can hold the name while
// the lock still seems held here.
//
// It returns a *LostError if the lock was lost before, and ErrNotHeld if it was unlocked before, or was lost and this
// client not told yet. It returns ErrOutcomeUnknown if the answer did not come: nobody renews the lease then, so the
// name is free when it ends at the latest. A later Unlock waits for the same answer again; once the session has ended
// it does not come any more.
func (l *Lock) Unlock(ctx context.Context) error {
	release, err := l.beginUnlock()
	if err != nil {
		return l.fail("unlock", notHeld(err))
	}
	return l.awaitUnlock(ctx, release, l.session.client.answerBy(ctx))
}

// beginUnlock begins an Unlock, or goes on with one whose answer did not come, or returns what ended the lock before.
func (l *Lock) beginUnlock() (*call, error) {
	err := l.Err()
	if err == nil {
		release := l.releaseCall()
		release.answer = l.session.channel()
		if l.session.unlock(l, release) {
			return release, nil
		}
		err = l.Err()
	}
	if release := l.release.Swap(nil); release != nil {
		return release, nil
	}
	return nil, err
}

// awaitUnlock waits for the answer of an Unlock.
func (l *Lock) awaitUnlock(ctx context.Context, release *call, by instant) error {
	a, came := l.session.await(ctx, release, by)
	switch over := errors.Is(a.err, errSessionOver); {
	case over || !came:
		if over {
			release.answer <- a // for the next Unlock: nobody knows more
		}
		l.release.Store(release)
		return l.fail("unlock", fmt.Errorf("%w: %w", ErrOutcomeUnknown, a.err))
	case a.err != nil:
		return l.fail("unlock", a.err)
	}
	l.session.answered(release)
	return nil
}

// notHeld is the error of a call on an ended lock: ErrNotHeld after Unlock, else what ended it.
func notHeld(err error) error {
	if errors.Is(err, ErrUnlocked) {
		return ErrNotHeld
	}
	return err
}

func (l *Lock) fail(verb string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, quoted(l.Name()), err)
}

func (l *Lock) until() instant { return l.hold.end() }

func (l *Lock) check() {
	s := l.session
	if l.cause.Load() != nil || s.client.now() < l.until() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.now() >= l.until() { // it may have been renewed just now
		s.expireLocked(l.hold)
	}
}

// finish ends the lock, and with it the Locks that it is one of.
func (l *Lock) finish(cause error) {
	l.end(cause)
	if l.set != nil {
		l.set.end(cause)
	}
}

// proto is the lock as it was granted.
func (l *Lock) proto() *lockdv1.Hold {
	return &lockdv1.Hold{
		Name: l.hold.key.name, Kind: l.hold.key.kind, Holder: l.hold.key.holder, Fence: l.fence, AcquiredBy: l.acquiredBy,
	}
}

// releaseCall is a call with its Release, in one allocation.
type releaseCall struct {
	call
	request lockdv1.SessionRequest
	arm     lockdv1.SessionRequest_Release
	release lockdv1.Release
}

// releaseCall is a call that releases the lock.
func (l *Lock) releaseCall() *call {
	c, key := &releaseCall{}, l.hold.key
	c.release.Name, c.release.Kind, c.release.Holder, c.release.Fence = key.name, key.kind, key.holder, l.fence
	c.arm.Release = &c.release
	c.request.Message = &c.arm
	c.call.request, c.frees = &c.request, l
	return &c.call
}

// ending tells of the end of a Lock, or of Locks, to those who asked.
type ending struct {
	of      held
	session *session
	values  context.Context       // of the call that took it; only its values are used
	cause   atomic.Pointer[error] // nil while held; written under mu

	mu     sync.Mutex // guards the fields below, which are made when somebody asks for them
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}
}

// held is a Lock, or Locks.
type held interface {
	check()         // ends what is over its deadline, without waiting for any timer
	until() instant // until which it is surely held
}

// Deadline is until when the lock, or each of several, is surely held, as far as is known now. It moves later while the
// lease is renewed, and earlier only by Shorten.
func (e *ending) Deadline() time.Time { return e.session.client.base.Add(time.Duration(e.of.until())) }

// ValidFor is the time until Deadline, 0 if the lock, or any of several, has ended.
func (e *ending) ValidFor() time.Duration {
	if e.Err() != nil {
		return 0
	}
	return max(time.Duration(e.of.until()-e.session.client.now()), 0)
}

// Err is nil while the lock, or each of several, is held. After that it is the *LostError of one that was lost, else
// ErrUnlocked, or ErrClosed if Close ended it. It reads the clock: a process that was stopped past the deadline learns
// of the loss by its first call.
func (e *ending) Err() error {
	e.of.check()
	return e.err()
}

// Context returns a context that ends when the lock, or any of several, ends; its Cause is then what Err returns. It
// carries the values of the context given to Lock, but neither that one's end nor its deadline. Its Err and Done read
// the clock; contexts made from it end by a timer.
func (e *ending) Context() context.Context {
	e.mu.Lock()
	if e.ctx == nil {
		inner, cancel := context.WithCancelCause(context.WithoutCancel(e.values))
		e.ctx, e.cancel = &lockContext{inner, e}, cancel
		if err := e.err(); err != nil {
			cancel(err)
		}
	}
	ctx := e.ctx
	e.mu.Unlock()
	e.of.check()
	return ctx
}

// Lost returns a channel that is closed when the lock, or any of several, is lost. Unlock and Close do not close it.
func (e *ending) Lost() <-chan struct{} {
	e.mu.Lock()
	if e.lost == nil {
		e.lost = make(chan struct{})
		if errors.Is(e.err(), ErrLost) {
			close(e.lost)
		}
	}
	lost := e.lost
	e.mu.Unlock()
	e.of.check()
	return lost
}

// unlocked is the cause of all that ended by Unlock.
var unlocked = ErrUnlocked

func (e *ending) err() error {
	if cause := e.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// end notes the cause. The first one counts, but a loss replaces an Unlock: of several locks another one may have been
// unlocked before.
func (e *ending) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := errors.Is(cause, ErrLost)
	if before := e.err(); before != nil && (!lost || errors.Is(before, ErrLost)) {
		return
	}
	at := &unlocked // without an allocation
	if !errors.Is(cause, ErrUnlocked) {
		at = new(error)
		*at = cause
	}
	e.cause.Store(at)
	if e.cancel != nil {
		e.cancel(cause)
	}
	if lost && e.lost != nil {
		close(e.lost)
	}
}

// lockContext checks the lock's deadline whenever it is asked. Its Done is the channel of the context inside: so
// package context finds that one, and needs no goroutine for contexts made from this one. It has no Deadline: that of a
// lock moves, and package context would trust the first answer.
type lockContext struct {
	context.Context
	ending *ending
}

// Done is closed when the lock has ended.
func (c *lockContext) Done() <-chan struct{} {
	c.ending.of.check()
	return c.Context.Done()
}

// Err is context.Canceled when the lock has ended.
func (c *lockContext) Err() error {
	if c.ending.Err() != nil {
		return context.Canceled
	}
	return c.Context.Err()
}
