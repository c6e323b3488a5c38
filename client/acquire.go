package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// request is what one Lock or LockAll asks for, or its Try.
type request struct {
	acquire  lockdv1.Acquire // is not changed any more once it was sent
	bounded  bool            // whether wait counts
	begun    instant         // when it was made
	wait     time.Duration   // 0 = try once
	until    instant         // when wait ends
	answerBy instant         // when the answer of the server must have come, 0 = that does not matter
	onQueued func(position int)
	first    acquireCall // its first sending
}

// asked is one lock that is asked for.
type asked interface {
	GetName() string
	GetKind() lockdv1.LockKind
}

func (c *Client) newRequest(name string, opts []LockOption) *request {
	r := &request{}
	r.acquire.Name, r.acquire.Kind = name, lockdv1.LockKind(Exclusive)
	for _, o := range opts {
		o(r)
	}
	r.begun = c.now()
	r.until = r.begun + instant(r.wait)
	return r
}

// bound sets answerBy: some time after the end of its wait, or, for a try, when no deadline of ctx says it better.
func (r *request) bound(ctx context.Context, c *Client) {
	if !r.bounded {
		return
	}
	grace := answerGrace
	if r.try() {
		if grace = c.answerBound(ctx); grace == 0 {
			return
		}
	}
	r.answerBy = r.until + instant(grace)
}

// try says whether the request is to be answered at once.
func (r *request) try() bool { return r.bounded && r.wait == 0 }

// all are the locks that the request asks for: one, or its items.
func (r *request) all() iter.Seq[asked] {
	return func(yield func(asked) bool) {
		if len(r.acquire.GetItems()) == 0 {
			yield(&r.acquire)
			return
		}
		for _, i := range r.acquire.GetItems() {
			if !yield(i) {
				return
			}
		}
	}
}

// call is the request as it is sent now: with what is left of its wait. Each sending has a message of its own, as an
// earlier one may still be under way.
func (r *request) call(now instant, left time.Duration) *acquireCall {
	c, a := &r.first, &r.acquire
	if c.call.request != nil {
		c, a = &acquireCall{}, r.again(&r.acquire, now)
	}
	if r.bounded {
		a.Wait = durationpb.New(left)
	}
	c.arm.Acquire = a
	c.request.Message = &c.arm
	c.call.request = &c.request
	c.queued, c.room, c.asks = r.onQueued, c.locks[:0], r
	return c
}

// Lock waits until it has the lock, ctx ends, or the time of the Wait option has passed. The end of ctx has no
// meaning for the lock once it is held: that is held until Unlock.
//
// It outlives interruptions: a request that waits when the connection breaks is made again on the next one. When ctx
// ends the request is taken back; if it was granted in that moment the grant is given back, so a Lock that returned an
// error leaves nothing behind, or nothing that outlives its lease.
func (c *Client) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	ls, err := c.lock(ctx, c.newRequest(name, opts))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", quoted(name), err)
	}
	return ls[0], nil
}

// TryLock takes the lock if it is free, or returns a *HeldError. It returns ErrUnavailable if there is no
// connection and one attempt to connect failed, and ErrOutcomeUnknown if the connection broke, ctx ended or the time of
// WithAnswerTimeout had passed before the answer came. A grant that comes later is released. If the session ends before
// that, the name may stay taken until the lease has run out.
func (c *Client) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	r := c.newRequest(name, opts)
	r.wait, r.bounded = 0, true
	ls, err := c.lock(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", quoted(name), err)
	}
	return ls[0], nil
}

// lock makes a request until it is answered. It returns as many Locks as were asked for.
func (c *Client) lock(ctx context.Context, r *request) ([]*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCancelled, ended(ctx))
	}
	if err := r.readable(); err != nil {
		return nil, err
	}
	r.bound(ctx, c)
	r.acquire.Traceparent = traceparent(ctx)
	for {
		s, err := c.sessionFor(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := s.check(r); err != nil {
			return nil, err
		}
		ls, again, err := s.lock(ctx, r)
		if !again {
			return ls, err
		}
		c.forget(s)
	}
}

// sessionFor waits for the session that a request should go to, no longer than the request wants to wait.
func (c *Client) sessionFor(ctx context.Context, r *request) (*session, error) {
	s, err := c.currentSession()
	if s != nil || err != nil {
		return s, err
	}
	waitCtx := ctx
	if r.answerBy != 0 {
		by, cause := r.until, ErrTimedOut
		if r.try() {
			by, cause = r.answerBy, ErrUnavailable
		}
		var cancel context.CancelFunc
		waitCtx, cancel = context.WithTimeoutCause(ctx, time.Duration(by-c.now()), cause)
		defer cancel()
	}
	s, err = c.usable(waitCtx, !r.try())
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrCancelled, err)
	}
	return s, err
}

// readable refuses texts that no message can have, before anything is sent or connected.
func (r *request) readable() error {
	err := errors.Join(
		checkText("INVALID_HOLDER", "the holder", r.acquire.GetHolder(), 0),
		checkText("INVALID_ACTOR", "the actor", r.acquire.GetActor(), 0),
		checkText("INVALID_ANNOTATION", "the annotation", r.acquire.GetAnnotation(), 0),
	)
	for a := range r.all() {
		if err != nil {
			break
		}
		err = checkName(a.GetName(), nil)
	}
	return err
}

// check refuses what would break the stream for all if it were sent. The rest is the server's to judge.
func (s *session) check(r *request) error {
	err := errors.Join(
		s.checkCount(len(r.acquire.GetItems())),
		checkText("INVALID_HOLDER", "the holder", r.acquire.GetHolder(), s.limits.Load().GetHolderBytes()),
		checkText("INVALID_ACTOR", "the actor", r.acquire.GetActor(), actorBytes),
		checkText("INVALID_ANNOTATION", "the annotation", r.acquire.GetAnnotation(), s.limits.Load().GetAnnotationBytes()),
	)
	for a := range r.all() {
		if err != nil {
			break
		}
		err = checkName(a.GetName(), s)
	}
	return err
}

// checkCount judges how many locks are asked for at once, 0 being just one. A server that knows of no several would
// not see their names at all.
func (s *session) checkCount(items int) error {
	limit := s.limits.Load().GetNamesPerAcquire()
	switch {
	case items == 0:
		return nil
	case limit == 0:
		return fmt.Errorf("%w: several locks at once", ErrUnsupported)
	case uint64(items) > uint64(limit):
		return refused(codes.ResourceExhausted, "QUOTA_NAMES",
			fmt.Sprintf("%d locks at once, the server allows %d", items, limit))
	}
	return nil
}

// checkName judges a name: its encoding, and its size if a session is given, whose server tells how long it may be.
func checkName(name string, s *session) error {
	var limit uint32
	if s != nil {
		limit = s.limits.Load().GetNameBytes()
	}
	return checkText("INVALID_NAME", "the name", name, limit)
}

// checkText judges a text by its size, of which 0 is no limit, and its encoding.
func checkText(reason, what, text string, limit uint32) error {
	switch {
	case limit > 0 && uint64(len(text)) > uint64(limit):
		return invalid(reason, fmt.Sprintf("%s has %d bytes, the server allows %d", what, len(text), limit))
	case !utf8.ValidString(text):
		return invalid(reason, what+" is not valid UTF-8")
	}
	return nil
}

// lock makes a request in this session. again means that nothing came of it and another session should be asked.
func (s *session) lock(ctx context.Context, r *request) (ls []*Lock, again bool, err error) {
	now := s.client.now()
	left := time.Duration(r.until - now)
	var bound time.Duration
	if r.bounded && !r.try() && left <= 0 {
		return nil, false, ErrTimedOut
	}
	if r.answerBy != 0 {
		bound = max(time.Duration(r.answerBy-now), 1)
	}
	c := r.call(now, max(left, 0))
	c.values, c.answer = ctx, s.channel()
	a := s.do(ctx, &c.call, bound)
	// A try that was answered says what it was answered, also if ctx ended then.
	over := ctx.Err() != nil && (!r.try() || errors.Is(a.err, ctx.Err()))
	switch {
	case a.err == nil:
		return a.locks, false, nil
	case errors.Is(a.err, ErrDraining), errors.Is(a.err, errSessionOver) && (a.unsent || !r.try()):
		return nil, true, a.err
	case errors.Is(a.err, errNoAnswer) && a.unsent && r.try():
		return nil, false, unavailable(a.err)
	case errors.Is(a.err, errNoAnswer) && a.unsent:
		return nil, false, fmt.Errorf("%w: %w", ErrTimedOut, unavailable(a.err))
	case errors.Is(a.err, errNoAnswer) && !r.try():
		return nil, false, fmt.Errorf("%w: %w", ErrTimedOut, unknown(a.err))
	case errors.Is(a.err, errSessionOver), errors.Is(a.err, errNoAnswer), r.try() && over && !a.unsent:
		return nil, false, unknown(a.err)
	case over:
		return nil, false, fmt.Errorf("%w: %w", ErrCancelled, a.err)
	}
	return nil, false, a.err
}

// unknown is the error of a request whose answer did not come.
func unknown(err error) error { return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unavailable(err)) }
