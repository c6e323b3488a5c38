package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// request is what one call of Lock or LockAll, or their Try, asks for.
type request struct {
	terms
	acquire  lockdv1.Acquire // is not changed any more once it was sent
	values   context.Context // of the call: for its Locks
	several  bool            // the answer is Locks
	bounded  bool            // whether wait counts
	begun    instant         // when it was made
	wait     time.Duration   // 0 = try once
	end      instant         // when wait ends
	onQueued func(position int)
	onHeld   func(*HeldError)
	position int         // told last
	first    acquireCall // its first sending
	buffer   [1]*Lock    // for the Locks
}

// queued is what a server told of a request that waits.
type queued struct {
	position int
	again    bool       // it was told on the same stream before
	held     *HeldError // who is in the way; nil if that is not known
}

// tell passes the news on to the functions of OnQueued and OnHeld.
func (r *request) tell(q queued) {
	if r.onQueued != nil && (!q.again || q.position != r.position) {
		r.onQueued(q.position)
	}
	r.position = q.position
	if r.onHeld != nil && q.held != nil {
		r.onHeld(q.held)
	}
}

// acquireCall is a call with its message, in one allocation.
type acquireCall struct {
	call
	request lockdv1.SessionRequest
	arm     lockdv1.SessionRequest_Acquire
}

func newRequest(name string, opts []LockOption, more ...LockOption) *request {
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
	if r.wait > longest { // nobody lives to see its end
		r.wait, r.bounded = 0, false
	}
	r.end = r.begun + instant(r.wait)
	r.question = r
	r.changes, r.once, r.patient = true, r.try(), !r.try()
	switch {
	case r.try():
		r.by = c.answerBy(ctx)
		r.until, r.late = r.by, ErrUnavailable
	case r.bounded:
		r.by = r.end + instant(c.settings.answerWithin)
		r.until, r.late = r.end, ErrTimedOut
	}
}

// try says whether the request is to be answered at once.
func (r *request) try() bool { return r.bounded && r.wait == 0 }

// left is what is left of its wait: nil if there is no bound. It is 0 only for a try.
func (r *request) left(now instant) *durationpb.Duration {
	switch {
	case !r.bounded:
		return nil
	case r.try():
		return durationpb.New(0)
	}
	return durationpb.New(time.Duration(max(r.end-now, 1)))
}

// nextCall is a call with the request as it is sent now: with what is left of its wait. Each has its own message, as an
// earlier one may still be under way.
func (r *request) nextCall(s *session) *call {
	c, a, now := &r.first, &r.acquire, s.client.now()
	if c.call.request != nil {
		c, a = &acquireCall{}, r.again(a, now)
	}
	a.Wait = r.left(now)
	c.arm.Acquire = a
	c.request.Message = &c.arm
	c.call.request, c.call.answer, c.asks = &c.request, s.channel(), r
	if r.onQueued != nil || r.onHeld != nil {
		c.queued = make(chan queued, 16)
	}
	return &c.call
}

// Lock waits until it has the lock, ctx ends, or the time of the Wait option has passed. Once the lock is held the end
// of ctx means nothing to it: it is held until Unlock.
//
// It outlives interruptions: a request that waits when the connection breaks is sent again on the next one. When ctx
// ends the request is cancelled, a grant that comes at that moment is released, and the error is ErrCancelled. A Lock
// that returns an error leaves nothing behind that outlives a lease.
func (c *Client) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return c.lockOne(ctx, "lock", newRequest(name, opts))
}

// TryLock takes the lock if it is free, or returns a *HeldError. It returns ErrUnavailable if there is no connection
// and an attempt to connect failed, and ErrOutcomeUnknown if the session or ctx ended, or the time of WithAnswerTimeout
// passed, before the answer came. A grant that comes later is released. If the session ends before that, the name may
// stay taken until the lease has ended.
func (c *Client) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return c.lockOne(ctx, "try lock", newRequest(name, opts, Wait(0)))
}

func (c *Client) lockOne(ctx context.Context, verb string, r *request) (*Lock, error) {
	ls, err := c.lock(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, quoted(r.acquire.GetName()), err)
	}
	return ls[0], nil
}

// lock makes a request until it is answered. It returns a Lock for each name that was asked for.
func (c *Client) lock(ctx context.Context, r *request) ([]*Lock, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrCancelled, ended(ctx))
	}
	if err := r.checkTexts(nil); err != nil { // before anything is connected
		return nil, err
	}
	r.begin(ctx, c)
	a, err := c.ask(ctx, &r.terms)
	switch {
	case err == nil:
		return a.locks, nil
	case !r.try() && errors.Is(err, errNoAnswer):
		return nil, fmt.Errorf("%w: %w", ErrTimedOut, err)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, ErrOutcomeUnknown):
		return nil, fmt.Errorf("%w: %w", ErrCancelled, err)
	}
	return nil, err
}

// question is what is asked for.
type question interface {
	// checkTexts refuses what the server would refuse, as far as is known. limits is nil before the server told them.
	checkTexts(limits *lockdv1.Limits) error
	// nextCall is called each time that the question is sent.
	nextCall(s *session) *call
}

// terms are what is asked for, and how.
type terms struct {
	question
	until   instant // when there must be a session to ask in, or late is the error; 0 is no bound
	late    error
	by      instant // when the answer must have come; 0 is for as long as the context
	patient bool    // it waits on when an attempt to connect fails
	changes bool    // an answer that does not come leaves the outcome unknown
	once    bool    // it is not asked again if it may have been done
}

// ask asks a question in whatever session there is, until it is answered. When the session ends it is asked again in
// the next one if it was surely not sent, or may be done twice.
func (c *Client) ask(ctx context.Context, t *terms) (answer, error) {
	for {
		s, err := c.usable(ctx, t)
		switch {
		case err != nil:
		case t.until != 0 && t.until <= c.now():
			err = t.late
		default:
			err = t.checkTexts(s.limits.Load())
		}
		if err != nil {
			return answer{}, err
		}
		a := s.do(ctx, t.nextCall(s), t.by)
		over := errors.Is(a.err, errSessionOver)
		switch {
		case errors.Is(a.err, ErrDraining), over && (a.unsent || !t.once):
			c.move(s, true)
			continue
		case over, is(a.err, errNoAnswer, errBroken), t.once && ctx.Err() != nil && errors.Is(a.err, ctx.Err()):
			a.err = a.missing(t.changes)
		}
		return a, a.err
	}
}

// checkTexts refuses texts that no message can have and, once a server has told its limits, what exceeds them. The
// server judges the rest.
func (r *request) checkTexts(limits *lockdv1.Limits) error {
	most := limits.GetNamesPerAcquire()
	if n := len(r.acquire.GetItems()); most > 0 && uint64(n) > uint64(most) {
		return refused(codes.ResourceExhausted, "QUOTA_NAMES", fmt.Sprintf("%d locks at once, the server allows %d", n, most))
	}
	if r.acquire.GetMaxHold() != nil && limits != nil && limits.GetMaxHold() == nil {
		return refused(codes.Unimplemented, "UNIMPLEMENTED", "the server does not know MaxHold, and would ignore it")
	}
	err := errors.Join(
		checkText("INVALID_HOLDER", "the holder", r.acquire.GetHolder(), limits.GetHolderBytes()),
		checkText("INVALID_ACTOR", "the actor", r.acquire.GetActor(), actorBytes),
		checkText("INVALID_ANNOTATION", "the annotation", r.acquire.GetAnnotation(), limits.GetAnnotationBytes()),
	)
	if len(r.acquire.GetItems()) == 0 {
		err = cmp.Or(err, checkName(r.acquire.GetName(), limits))
	}
	for _, i := range r.acquire.GetItems() {
		err = cmp.Or(err, checkName(i.GetName(), limits))
	}
	return err
}

// checkName judges a name: its encoding, and its size if the limits are known.
func checkName(name string, limits *lockdv1.Limits) error {
	return checkText("INVALID_NAME", "the name", name, limits.GetNameBytes())
}

// checkText judges a text by its size and its encoding. A limit of 0 is none.
func checkText(reason, what, text string, limit uint32) error {
	switch {
	case limit > 0 && uint64(len(text)) > uint64(limit):
		return invalid(reason, fmt.Sprintf("%s has %d bytes, the server allows %d", what, len(text), limit))
	case !utf8.ValidString(text):
		return invalid(reason, what+" is not valid UTF-8")
	}
	return nil
}

// missing is the error of a request whose answer did not come. If it changes something, the outcome may be unknown.
func (a answer) missing(changes bool) error {
	if a.unsent || !changes {
		return unavailable(a.err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unavailable(a.err))
}
