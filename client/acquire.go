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
	values   context.Context // of the call: for its Locks
	several  bool            // the answer is Locks
	bounded  bool            // whether wait counts
	begun    instant         // when it was made
	wait     time.Duration   // 0 = try once
	until    instant         // when wait ends
	answerBy instant         // when the answer of the server must have come, 0 = that does not matter
	onQueued func(position int)
	first    acquireCall // its first sending
	room     [1]*Lock    // for the Locks
}

// acquireCall is a call with all that belongs to it in one allocation.
type acquireCall struct {
	call
	request lockdv1.SessionRequest
	arm     lockdv1.SessionRequest_Acquire
}

// asked is one lock that is asked for.
type asked interface {
	GetName() string
	GetKind() lockdv1.LockKind
	GetPermits() uint32
}

func (c *Client) newRequest(name string, opts []LockOption, more ...LockOption) *request {
	r := &request{}
	r.acquire.Name, r.acquire.Kind = name, lockdv1.LockKind(Exclusive)
	for _, o := range opts {
		o(r)
	}
	for _, o := range more {
		o(r)
	}
	return r
}

// begin has the times of a request count from now.
func (r *request) begin(ctx context.Context, c *Client) {
	r.values, r.acquire.Traceparent = ctx, traceparent(ctx)
	r.begun = c.now()
	r.until = r.begun + instant(r.wait)
	switch {
	case r.try():
		r.answerBy = c.answerBy(ctx)
	case r.bounded:
		r.answerBy = r.until + instant(c.settings.answerWithin)
	}
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
func (r *request) call(now instant) *call {
	c, a := &r.first, &r.acquire
	if c.call.request != nil {
		c, a = &acquireCall{}, r.again(a, now)
	}
	if r.bounded {
		a.Wait = durationpb.New(time.Duration(max(r.until-now, 0)))
	}
	c.arm.Acquire = a
	c.request.Message = &c.arm
	c.call.request = &c.request
	c.asks = r
	return &c.call
}

// Lock waits until it has the lock, ctx ends, or the time of the Wait option has passed. The end of ctx has no
// meaning for the lock once it is held: that is held until Unlock.
//
// It outlives interruptions: a request that waits when the connection breaks is made again on the next one. When ctx
// ends the request is taken back; if it was granted in that moment the grant is given back, so a Lock that returned an
// error leaves nothing behind, or nothing that outlives its lease.
func (c *Client) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return c.lockOne(ctx, "lock", c.newRequest(name, opts))
}

// TryLock takes the lock if it is free, or returns a *HeldError. It returns ErrUnavailable if there is no
// connection and one attempt to connect failed, and ErrOutcomeUnknown if the connection broke, ctx ended or the time of
// WithAnswerTimeout had passed before the answer came. A grant that comes later is released. If the session ends before
// that, the name may stay taken until the lease has run out.
func (c *Client) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return c.lockOne(ctx, "try lock", c.newRequest(name, opts, Wait(0)))
}

func (c *Client) lockOne(ctx context.Context, verb string, r *request) (*Lock, error) {
	ls, err := c.lock(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, quoted(r.acquire.GetName()), err)
	}
	return ls[0], nil
}

// lock makes a request until it is answered. It returns as many Locks as were asked for.
func (c *Client) lock(ctx context.Context, r *request) ([]*Lock, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrCancelled, ended(ctx))
	}
	if err := r.check(nil); err != nil { // before anything is connected
		return nil, err
	}
	r.begin(ctx, c)
	for {
		by, late := r.answerBy, ErrUnavailable
		if r.bounded && !r.try() {
			by, late = r.until, ErrTimedOut
		}
		s, err := c.usable(ctx, !r.try(), by, late)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrCancelled, err)
		}
		if err != nil {
			return nil, err
		}
		if err := r.check(s.limits.Load()); err != nil {
			return nil, err
		}
		ls, again, err := s.lock(ctx, r)
		if !again {
			return ls, err
		}
		c.move(s, true)
	}
}

// check refuses what no message can have, and, once a server has told its limits, what would break the stream for all.
// The rest is the server's to judge.
func (r *request) check(limits *lockdv1.Limits) error {
	most := limits.GetNamesPerAcquire()
	if n := len(r.acquire.GetItems()); most > 0 && uint64(n) > uint64(most) {
		return refused(codes.ResourceExhausted, "QUOTA_NAMES", fmt.Sprintf("%d locks at once, the server allows %d", n, most))
	}
	err := errors.Join(
		checkText("INVALID_HOLDER", "the holder", r.acquire.GetHolder(), limits.GetHolderBytes()),
		checkText("INVALID_ACTOR", "the actor", r.acquire.GetActor(), actorBytes),
		checkText("INVALID_ANNOTATION", "the annotation", r.acquire.GetAnnotation(), limits.GetAnnotationBytes()),
	)
	for a := range r.all() {
		if err != nil {
			break
		}
		err = checkName(a.GetName(), limits)
	}
	return err
}

// checkName judges a name: its encoding, and its size if the limits are known.
func checkName(name string, limits *lockdv1.Limits) error {
	return checkText("INVALID_NAME", "the name", name, limits.GetNameBytes())
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
	if r.bounded && !r.try() && r.until <= now {
		return nil, false, ErrTimedOut
	}
	c := r.call(now)
	c.answer = s.channel()
	a := s.do(ctx, c, s.client.until(r.answerBy))
	// A try that was answered says what it was answered, also if ctx ended then.
	over := ctx.Err() != nil && (!r.try() || errors.Is(a.err, ctx.Err()))
	lost := errors.Is(a.err, errSessionOver) || errors.Is(a.err, errNoAnswer) || r.try() && over && !a.unsent
	switch {
	case a.err == nil:
		return a.locks, false, nil
	case errors.Is(a.err, ErrDraining), errors.Is(a.err, errSessionOver) && (a.unsent || !r.try()):
		return nil, true, a.err
	case lost && r.try():
		return nil, false, a.missing(true)
	case lost:
		return nil, false, fmt.Errorf("%w: %w", ErrTimedOut, a.missing(true))
	case over:
		return nil, false, fmt.Errorf("%w: %w", ErrCancelled, a.err)
	}
	return nil, false, a.err
}

// missing is the error of a request whose answer did not come. If it changes something, the outcome may be unknown.
func (a answer) missing(changes bool) error {
	if a.unsent || !changes {
		return unavailable(a.err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unavailable(a.err))
}
