package client

import (
	"context"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Info is what the server knows of a name.
type Info struct {
	Name string
	// Kind is 0 if it is not known. A Fair lock for which nobody waits looks like an Exclusive one.
	Kind Kind
	// Held says whether somebody holds it.
	Held bool
	// HeldBy is who holds it, as Redis knows the holder. Of several readers one is named; permits have no names.
	HeldBy string
	// Client is the name of the holder's client, empty when another replica or another program holds it.
	Client string
	// Fence is the last one given out for the name, 0 when none is known.
	Fence uint64
	// TTL is the remaining time of the lease, 0 when nobody holds it or the hold has no end.
	TTL time.Duration
	// HoldCount is how many times its holder has locked it.
	HoldCount uint32
	// Holders is how many hold it: readers, or permits that are out.
	Holders uint32
	// Limit is how many permits a semaphore has.
	Limit uint32
	// Waiters is how many requests wait for it on the replica that answered.
	Waiters uint32
	// Queued is how many wait in the queue of a fair lock, everywhere.
	Queued uint32
	// Annotation is that of the hold, if the replica that answered knows it.
	Annotation string
}

// Held is a lock that the session holds, as the server tells it.
type Held struct {
	Name   string
	Kind   Kind
	Holder string
	Fence  uint64
	// Deadline is until when it is surely held unless it is renewed.
	Deadline time.Time
	// Count is how many times its holder has locked it.
	Count uint32
	// Auto says whether the lease is renewed by the server.
	Auto bool
	// Permits is how many permits of a semaphore are held.
	Permits uint32
}

// Look returns what the server knows of a name. It is for display and watching: the answer may be outdated when it
// arrives. It returns ErrUnavailable if the server does not answer in time.
func (c *Client) Look(ctx context.Context, name string) (Info, error) {
	request := &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Look{Look: &lockdv1.Look{Name: name}}}
	a, err := c.inquire(ctx, &inquiry{name: name, message: request}, terms{by: c.answerBy(ctx)})
	if err != nil {
		return Info{}, fmt.Errorf("look at %s: %w", quoted(name), err)
	}
	s := a.response.GetLooked().GetLock()
	return Info{
		Name: s.GetName(), Kind: Kind(s.GetKind()), Held: s.GetHeld(), HeldBy: s.GetHeldBy(), Client: s.GetClient(),
		Fence: s.GetFence(), TTL: s.GetTtl().AsDuration(), HoldCount: s.GetHoldCount(), Holders: s.GetHolders(),
		Limit: s.GetLimit(), Waiters: s.GetWaiters(), Queued: s.GetQueued(), Annotation: s.GetAnnotation(),
	}, nil
}

// SetLimit sets how many permits a semaphore has, at least 1, and returns how many it had, 0 if there was no limit.
// Permits that are held stay held: with a smaller limit new ones are granted once enough were released. After
// ErrOutcomeUnknown it may have been done. It may be repeated; the second call then returns the new limit.
func (c *Client) SetLimit(ctx context.Context, name string, n uint32) (previous uint32, err error) {
	request := &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_SetLimit{
		SetLimit: &lockdv1.SetLimit{Name: name, Limit: n},
	}}
	a, err := c.inquire(ctx, &inquiry{name: name, message: request},
		terms{by: c.answerBy(ctx), changes: true, once: true})
	if err != nil {
		return 0, fmt.Errorf("set the limit of %s: %w", quoted(name), err)
	}
	return a.response.GetLimitSet().GetPrevious(), nil
}

// Holds lists what this Client holds, as the server knows it, of names that begin with prefix. It asks for a page at a
// time: a hold that lasts all the while comes once, one that begins or ends meanwhile may come or not. An error comes
// last. Without a session nothing is held. A Lock itself knows better whether it is still held.
func (c *Client) Holds(ctx context.Context, prefix string) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		c.mu.Lock()
		nothing := c.session == nil && utf8.ValidString(prefix)
		c.mu.Unlock()
		for page := ""; !nothing; {
			q := &inquiry{name: prefix, message: &lockdv1.SessionRequest{
				Message: &lockdv1.SessionRequest_ListHolds{ListHolds: &lockdv1.ListHolds{Prefix: prefix, PageToken: page}},
			}}
			a, err := c.inquire(ctx, q, terms{by: c.answerBy(ctx)})
			if err != nil {
				yield(Held{}, fmt.Errorf("list holds: %w", err))
				return
			}
			for _, h := range a.response.GetHoldList().GetLocks() {
				if !yield(a.stream.heldOf(h), nil) {
					return
				}
			}
			if page = a.response.GetHoldList().GetNextPageToken(); page == "" {
				return
			}
		}
	}
}

func (st *stream) heldOf(h *lockdv1.HeldLock) Held {
	s := st.session
	s.mu.Lock()
	deadline := st.beats.validity(h.GetValidity()).deadline
	s.mu.Unlock()
	return Held{
		Name: h.GetHold().GetName(), Kind: Kind(h.GetHold().GetKind()), Holder: h.GetHold().GetHolder(),
		Fence: h.GetHold().GetFence(), Deadline: s.client.base.Add(time.Duration(deadline)), Count: h.GetHoldCount(),
		Auto: h.GetAuto(), Permits: h.GetPermits(),
	}
}

// inquiry is a question about a name, or a prefix, that needs no lock.
type inquiry struct {
	name    string
	message *lockdv1.SessionRequest
	each    func() // is called each time that it is sent; or nil
}

func (q *inquiry) checkTexts(limits *lockdv1.Limits) error { return checkName(q.name, limits) }

func (q *inquiry) nextCall(s *session) *call {
	if q.each != nil {
		q.each()
	}
	return &call{request: &lockdv1.SessionRequest{Message: q.message.GetMessage()}, answer: s.channel()}
}

// inquire asks q until t.by, connecting included; if that is 0, until ctx ends.
func (c *Client) inquire(ctx context.Context, q *inquiry, t terms) (answer, error) {
	t.question, t.until, t.late = q, t.by, ErrUnavailable
	if err := q.checkTexts(nil); err != nil { // before anything is connected
		return answer{}, err
	}
	return c.ask(ctx, &t)
}
