package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Extend prolongs a fixed lease so that it ends no earlier than d from now, or when MaxHold ends it. It never shortens
// the lease. It returns ErrAutoLease for an auto lease, and ErrOutcomeUnknown if the answer did not come: the lock is
// then held until the old deadline at least. It may be repeated.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	l.session.mu.Lock()
	auto := l.hold.auto
	l.session.mu.Unlock()
	if auto { // the server would make it fixed
		return l.fail("extend", cmp.Or(notHeld(l.Err()), ErrAutoLease))
	}
	return l.change(ctx, "extend", &lockdv1.Extend{Lease: durationpb.New(d)})
}

// MakeFixed makes the lease fixed, to end no earlier than d from now: the server does not renew it any more. A longer
// remaining time is kept. For a fixed lease it is the same as Extend. After ErrOutcomeUnknown the lease is fixed or
// what it was; the old deadline is still right. It may be repeated.
func (l *Lock) MakeFixed(ctx context.Context, d time.Duration) error {
	return l.change(ctx, "make fixed", &lockdv1.Extend{Lease: durationpb.New(d)})
}

// MakeAuto has the server renew the lease for as long as it hears this client. A longer remaining time is kept, even if
// it outlives the session. After ErrOutcomeUnknown the old deadline counts, unless the answer still comes. It may be
// repeated.
func (l *Lock) MakeAuto(ctx context.Context) error {
	return l.change(ctx, "make auto", &lockdv1.Extend{})
}

// Shorten makes the lease fixed, to end d from now, even if it is an auto lease or would have ended later. Deadline
// moves before the server is asked. If the call fails, the earlier end counts on this side until the lease is renewed
// or extended, but the name may stay taken until the later end. It may be repeated.
func (l *Lock) Shorten(ctx context.Context, d time.Duration) error {
	if least := l.session.limits.Load().GetMinLease().AsDuration(); d <= 0 || d < least {
		return l.fail("shorten", invalid("INVALID_DURATION",
			fmt.Sprintf("a lease of %v, the server allows no less than %v", d, least)))
	}
	return l.change(ctx, "shorten", &lockdv1.Extend{Lease: durationpb.New(d), MayShorten: true})
}

func (l *Lock) change(ctx context.Context, verb string, e *lockdv1.Extend) error {
	e.Name, e.Kind, e.Holder, e.Fence = l.hold.key.name, l.hold.key.kind, l.hold.key.holder, l.fence
	_, err := l.ask(ctx, verb, &call{
		request: &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Extend{Extend: e}}, extends: l,
	})
	return err
}

// KeepPermits releases all permits of a Semaphore's Lock but n, at least 1, and returns how many are left. If the Lock
// has fewer it keeps them. After ErrOutcomeUnknown it may have been done. It may be repeated, as n says what stays.
func (l *Lock) KeepPermits(ctx context.Context, n uint32) (left uint32, err error) {
	const verb = "keep permits of"
	switch {
	case n == 0:
		return 0, l.fail(verb, invalid("INVALID_PERMITS", "to keep no permit is Unlock"))
	case l.Kind() != Semaphore:
		return 0, l.fail(verb, invalid("INVALID_PERMITS", "only a semaphore has permits"))
	}
	c := l.releaseCall()
	c.request.GetRelease().Keep = n
	a, err := l.ask(ctx, verb, c)
	return a.left, err
}

// ask makes a call about the lock, which may end meanwhile.
func (l *Lock) ask(ctx context.Context, verb string, c *call) (a answer, err error) {
	lost := l.Err()
	if lost == nil {
		c.answer = l.session.channel()
		a = l.session.do(ctx, c, l.session.client.answerBy(ctx))
		lost = l.Err()
	}
	switch err = a.err; {
	case lost != nil && errors.Is(err, errNoAnswer): // both are true
		err = fmt.Errorf("%w: %w: %w", ErrOutcomeUnknown, notHeld(lost), err)
	case lost != nil:
		err = notHeld(lost)
	case err == nil:
		return a, nil
	case ctx.Err() != nil, errors.Is(err, errNoAnswer):
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return a, l.fail(verb, err)
}

// shorteningLocked notes a Shorten that is about to be sent: from here on the earlier end counts. The server takes
// 1 % and 2 ms off the lease, for clocks that differ.
func (s *session) shorteningLocked(c *call) {
	h, lease := c.extends.hold, told(c.request.GetExtend().GetLease())
	h.shortening = c
	if end := s.client.now() + instant(lease-lease/100-2*time.Millisecond); end < h.end() {
		h.deadline.Store(int64(end))
		s.alarmLocked(h)
	}
}

// changedLocked notes an Extend that was done.
func (s *session) changedLocked(c *call, v validity) {
	h := c.extends.hold
	h.auto = c.request.GetExtend().GetLease() == nil
	s.raiseLocked(h, v)
}
