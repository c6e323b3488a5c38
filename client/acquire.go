package client

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// request is what one Lock or TryLock asks for.
type request struct {
	acquire lockdv1.Acquire
	bounded bool          // whether wait counts
	wait    time.Duration // 0 = try once
	until   instant       // when wait ends
}

func (c *Client) newRequest(name string, opts []LockOption) *request {
	r := &request{}
	r.acquire.Name, r.acquire.Kind = name, lockdv1.LockKind(Exclusive)
	for _, o := range opts {
		o(r)
	}
	r.until = c.now() + instant(r.wait)
	return r
}

// try says whether the request is to be answered at once.
func (r *request) try() bool { return r.bounded && r.wait == 0 }

// key is the hold that the request would get if it names its holder.
func (r *request) key() holdKey {
	return holdKey{r.acquire.GetName(), r.acquire.GetKind(), r.acquire.GetHolder()}
}

// message is the request as it is sent now: with what is left of its wait. Each sending has a message of its own,
// as an earlier one may still be under way.
func (r *request) message(left time.Duration) *lockdv1.SessionRequest {
	a := &lockdv1.Acquire{
		Name: r.acquire.GetName(), Kind: r.acquire.GetKind(), Holder: r.acquire.GetHolder(),
		Lease: r.acquire.GetLease(), Annotation: r.acquire.GetAnnotation(),
	}
	if r.bounded {
		a.Wait = durationpb.New(left)
	}
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: a}}
}

// Lock waits until it has the lock, ctx ends, or the time of the Wait option has passed. The end of ctx has no
// meaning for the lock once it is held: that is held until Unlock.
//
// It outlives interruptions: a request that waits when the connection breaks is made again on the next one, at the
// end of the queue. When ctx ends the request is taken back; if it was granted in that moment the grant is given
// back, so a Lock that returned an error leaves nothing behind, or nothing that outlives its lease.
func (c *Client) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	l, err := c.lock(ctx, c.newRequest(name, opts))
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return l, nil
}

// TryLock takes the lock if it is free, or returns a *HeldError. It returns ErrUnavailable if there is no
// connection and one attempt to connect failed, and ErrOutcomeUnknown if the connection broke, or ctx ended, before
// the answer came: the lock may then be held by nobody's use until its lease has run out.
func (c *Client) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	r := c.newRequest(name, opts)
	r.wait, r.bounded = 0, true
	l, err := c.lock(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("try lock %q: %w", name, err)
	}
	return l, nil
}

func (c *Client) lock(ctx context.Context, r *request) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCancelled, ended(ctx))
	}
	for {
		s, err := c.sessionFor(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := s.check(r); err != nil {
			return nil, err
		}
		l, again, err := s.lock(ctx, r)
		if !again || errors.Is(err, ErrDraining) && s.holds(r.key()) {
			return l, err
		}
		c.forget(s)
	}
}

// sessionFor waits for the session that a request should go to, no longer than the request wants to wait.
func (c *Client) sessionFor(ctx context.Context, r *request) (*session, error) {
	if r.acquire.GetHolder() != "" {
		if s := c.holding(r.key()); s != nil {
			return s, nil
		}
	}
	s, err := c.currentSession()
	if s != nil || err != nil {
		return s, err
	}
	waitCtx := ctx
	if r.bounded && !r.try() {
		var cancel context.CancelFunc
		waitCtx, cancel = context.WithTimeoutCause(ctx, time.Duration(r.until-c.now()), ErrTimedOut)
		defer cancel()
	}
	s, err = c.usable(waitCtx, !r.try())
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrCancelled, err)
	}
	return s, err
}

// holding finds a draining session in which a named holder has the lock already: only there it can have it again.
func (c *Client) holding(hold holdKey) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sessions {
		if s != c.current && s.holds(hold) {
			return s
		}
	}
	return nil
}

// check refuses what would break the stream for all if it were sent. The rest is the server's to judge.
func (s *session) check(r *request) error {
	return errors.Join(
		checkText("INVALID_NAME", "the name", r.acquire.GetName(), s.limits.GetNameBytes()),
		checkText("INVALID_HOLDER", "the holder", r.acquire.GetHolder(), s.limits.GetHolderBytes()),
		checkText("INVALID_ANNOTATION", "the annotation", r.acquire.GetAnnotation(), s.limits.GetAnnotationBytes()),
	)
}

// checkText judges a text by its size, of which 0 is no limit, and its encoding.
func checkText(reason, what, text string, limit uint32) error {
	switch {
	case limit > 0 && len(text) > int(limit):
		return invalid(reason, fmt.Sprintf("%s has %d bytes, the server allows %d", what, len(text), limit))
	case !utf8.ValidString(text):
		return invalid(reason, what+" is not valid UTF-8")
	}
	return nil
}

// lock makes a request in this session. again means that nothing came of it and another session should be asked.
func (s *session) lock(ctx context.Context, r *request) (l *Lock, again bool, err error) {
	left := time.Duration(r.until - s.client.now())
	var bound time.Duration
	if r.bounded && !r.try() {
		if left <= 0 {
			return nil, false, ErrTimedOut
		}
		bound = left + s.interval // the server ends the wait; this is for when it does not
	}
	c := newCall(r.message(max(left, 0)))
	c.values = ctx
	a := s.do(ctx, c, bound)
	switch {
	case a.err == nil:
		return a.lock, false, nil
	case errors.Is(a.err, ErrDraining), errors.Is(a.err, errSessionOver) && (a.unsent || !r.try()):
		return nil, true, a.err
	case errors.Is(a.err, errSessionOver), r.try() && ctx.Err() != nil && !a.unsent:
		return nil, false, unknown(a.err)
	case ctx.Err() != nil:
		return nil, false, fmt.Errorf("%w: %w", ErrCancelled, a.err)
	}
	return nil, false, a.err
}

// unknown is the error of a request whose answer did not come.
func unknown(err error) error { return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unavailable(err)) }
