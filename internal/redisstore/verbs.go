package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What the scripts that acquire and release answer first.
const (
	answerHeld     = 0
	answerDone     = 1
	answerHandOver = 2
	answerNotHeld  = -1
	answerStale    = -2
	answerMismatch = -3
	answerLimit    = -4
	answerTooMany  = -5
)

// millis is a duration for Redis: whole milliseconds, rounded up, because a lease must not end before the time that
// was told; and never 0, which would delete the key.
func millis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}

// ttlOf is a PTTL reply as a duration.
func ttlOf(pttl int64) time.Duration {
	if pttl < 0 {
		return lock.NoTTL
	}
	return time.Duration(pttl) * time.Millisecond
}

func decimal(f lock.Fence) string { return strconv.FormatUint(uint64(f), 10) }

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (g lock.Grant, err error) {
	if err := begin(ctx, c.Kind); err != nil {
		return lock.Grant{}, acquireFailed(c.Name, err)
	}
	if !singleClaim(c) {
		a, err := s.ask(ctx, s.acquireCall(c))
		return granted(c.Name, a, err)
	}
	told := make(chan outcome, 1)
	o := s.acquisition(&c, func(g lock.Grant, err error) { told <- outcome{grant: g, err: err} }).wait(ctx, told)
	return o.grant, o.err
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	if err := begin(context.Background(), c.Kind); err != nil {
		go done(lock.Grant{}, acquireFailed(c.Name, err))
		return
	}
	if singleClaim(c) {
		s.acquisition(&c, done).start()
		return
	}
	s.startAcquire(c, done)
}

// startAcquire is StartAcquire for what is no single.
func (s *Store) startAcquire(c lock.Claim, done func(lock.Grant, error)) {
	s.start(s.acquireCall(c), func(a answer, err error) { done(granted(c.Name, a, err)) })
}

func acquireFailed(name string, err error) error { return fmt.Errorf("acquire %q: %w", name, err) }

// granted reads what a script that acquires answered.
func granted(name string, a answer, err error) (lock.Grant, error) {
	if err != nil {
		return lock.Grant{}, acquireFailed(name, err)
	}
	if a.code() != answerDone {
		return lock.Grant{}, acquireFailed(name, a.denial(1, ""))
	}
	g := lock.Grant{Fence: a.fence(1), TTL: ttlOf(a.int(2))}
	if a.err != nil {
		return lock.Grant{}, acquireFailed(name, a.err)
	}
	return g, nil
}

// denial is the error for a claim on a name that was not granted; what is known of that begins at an element.
func (a *answer) denial(at int, name string) error {
	var err error
	switch a.code() {
	case answerHeld:
		held := &lock.HeldError{Name: name, RetryAfter: ttlOf(a.int(at)), HeldBy: lock.Owner(a.text(at + 1))}
		if len(a.list) > at+2 {
			held.Ahead = int(a.int(at + 2))
		}
		err = held
	case answerLimit:
		err = &lock.LimitError{Limit: a.number(at)}
	case answerTooMany:
		err = &lock.InvalidError{
			Field: "permits", Reason: lock.ReasonPermits, Detail: fmt.Sprintf("the semaphore has %d", a.int(at)),
		}
	default:
		return a.refusal()
	}
	if a.err != nil {
		return a.err
	}
	return err
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if err := begin(ctx, r.Kind); err != nil {
		return lock.Returned{}, releaseFailed(r.Name, err)
	}
	if !singleReturn(r) {
		a, err := s.ask(ctx, s.releaseCall(r))
		return returned(r.Name, r.Kind, a, err)
	}
	told := make(chan outcome, 1)
	o := s.restitution(&r, func(res lock.Returned, err error) { told <- outcome{back: res, err: err} }).wait(ctx, told)
	return o.back, o.err
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := begin(context.Background(), r.Kind); err != nil {
		go done(lock.Returned{}, releaseFailed(r.Name, err))
		return
	}
	if singleReturn(r) {
		s.restitution(&r, done).start()
		return
	}
	s.startRelease(r, done)
}

// startRelease is StartRelease for what is no single.
func (s *Store) startRelease(r lock.Return, done func(lock.Returned, error)) {
	s.start(s.releaseCall(r), func(a answer, err error) { done(returned(r.Name, r.Kind, a, err)) })
}

func releaseFailed(name string, err error) error { return fmt.Errorf("release %q: %w", name, err) }

// returned reads what a script that releases answered.
func returned(name string, kind lock.Kind, a answer, err error) (res lock.Returned, _ error) {
	if err != nil {
		return lock.Returned{}, releaseFailed(name, err)
	}
	switch a.code() {
	case answerDone:
		res.Listeners = int(a.int(1))
		if kind == lock.Fair {
			res.Turn = lock.Owner(a.text(2))
		}
		if kind == lock.Semaphore {
			res.Left = a.number(2)
		}
		err = a.err
	case answerHandOver:
		res.HandedOver = a.fence(1)
		err = a.err
	default:
		err = a.refusal()
	}
	if err != nil {
		return lock.Returned{}, releaseFailed(name, err)
	}
	return res, nil
}

// SetLimit implements lock.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	err := begin(ctx, lock.Semaphore)
	if err == nil {
		n := s.prefix + name
		var a answer
		if a, err = s.ask(ctx, s.scripts.limitPermits.with(permitKeys(n), limit, s.fenceMillis, permitChannel(n))); err == nil {
			previous := a.number(1)
			if err = a.err; err == nil {
				return previous, nil
			}
		}
	}
	return 0, fmt.Errorf("set the limit of %q: %w", name, err)
}

// ForceRelease implements lock.Store.
//
// The message on the control channel carries the database and the whole key: replicas with another prefix or another
// database hear it too, as Redis has one space of channels, and take only what is theirs.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	held, err := s.forceRelease(ctx, name, kind)
	if err != nil {
		return false, fmt.Errorf("force release %q: %w", name, err)
	}
	return held, nil
}

func (s *Store) forceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	if err := begin(ctx, kind); err != nil {
		return false, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	cmd, err := s.forceCall(s.prefix+name, kind).run(ctx, s.shared.do)
	if err != nil {
		return false, s.failed(err)
	}
	code, err := cmd.Int64()
	switch {
	case err != nil:
		return false, s.failed(err)
	case code == answerMismatch:
		return false, lock.ErrKindMismatch
	}
	return code == 1, nil
}
