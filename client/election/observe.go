package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lockd-io/lockd/client"
)

// Leader is who leads, as an observer sees it.
type Leader struct {
	// ID is the Candidate's. It is HeldBy if the leader did not use this package.
	ID string
	// Client is the name of the leader's client, and Annotation the Candidate's. They are empty if the replica that
	// answered does not serve the leader.
	Client, Annotation string
	// Fence is the number of the term.
	Fence uint64
	// HeldBy is the leader as the store knows it. It is empty when nobody leads.
	HeldBy string
	// TTL is how long the lease had left when the server answered. The term ends no earlier unless the leader resigns.
	TTL time.Duration
}

// Vacant says that nobody leads.
func (l Leader) Vacant() bool { return l.HeldBy == "" }

// same says whether it is the same term.
func (l Leader) same(other Leader) bool { return l.HeldBy == other.HeldBy && l.Fence == other.Fence }

// Leader asks who leads now. The answer may be outdated when it arrives. It returns client.ErrUnavailable if the server
// does not answer in time.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	info, err := e.client.Look(ctx, e.name)
	if err != nil {
		return Leader{}, fmt.Errorf("ask who leads: %w", err)
	}
	if !info.Held {
		return Leader{}, nil
	}
	return Leader{
		ID: idOf(info.HeldBy), Client: info.Client, Annotation: info.Annotation,
		Fence: info.Fence, HeldBy: info.HeldBy, TTL: info.TTL,
	}, nil
}

// Observe tells who leads, and then each change, until ctx ends. A reader that is slow is told of the latest change
// only.
//
// The server pushes the end of each term, and then Observe asks who leads. While nobody does it asks again, first after
// 50 ms, in the end once a second: there is no push for a beginning. While somebody leads it asks again when the
// leader's lease would have ended, or after 10 s if that is sooner.
//
// While the server cannot be reached Observe tells, once, the last known leader with an error that is
// client.ErrUnavailable: the leader may have changed. When the server answers again Observe tells who leads, even if it
// is the same. Any other error, as client.ErrForbidden or client.ErrClosed, comes last. Observe may be called again.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the watch, too
		defer cancel()
		o := &observer{Election: e, pause: minPause}
		for {
			leader, err := o.look(ctx)
			if ctx.Err() != nil || !o.tell(leader, err, yield) || !o.wait(ctx) {
				return
			}
		}
	}
}

// observer is one call of Observe.
type observer struct {
	*Election
	ends   <-chan client.Unlocked // of terms; nil while it is not watched
	over   error                  // why it is not watched any more
	told   bool                   // whether anything was
	failed bool                   // whether the last thing told was an error
	last   Leader                 // who was told
	pause  time.Duration          // until the next look, unless somebody leads
}

// look asks who leads. Before that it begins to watch for changes, unless it watches already.
func (o *observer) look(ctx context.Context) (Leader, error) {
	if o.over != nil {
		return Leader{}, o.over
	}
	if o.ends == nil {
		ends, err := o.client.Watch(ctx, o.name)
		if err != nil {
			return Leader{}, fmt.Errorf("observe: %w", err)
		}
		o.ends = ends
	}
	return o.Leader(ctx)
}

// tell tells what is new, and says whether to go on.
func (o *observer) tell(leader Leader, err error, yield func(Leader, error) bool) bool {
	if err != nil {
		news, goesOn := !o.failed || !passes(err), passes(err)
		o.failed = true
		return (!news || yield(o.last, err)) && goesOn
	}
	news := !o.told || o.failed || !leader.same(o.last)
	o.told, o.failed, o.last = true, false, leader
	if news {
		o.pause = minPause
	}
	return !news || yield(leader, nil)
}

// wait waits until it makes sense to look again, and says whether ctx goes on.
func (o *observer) wait(ctx context.Context) bool {
	pause := min(max(o.last.TTL, maxPause), o.trust)
	if o.failed || o.last.Vacant() {
		pause = o.pause
		o.pause = min(2*pause, maxPause)
	}
	select {
	case end, open := <-o.ends:
		o.heard(end, open)
	case <-time.After(pause):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// heard reads all that was pushed so far: after that one look tells who leads.
func (o *observer) heard(end client.Unlocked, open bool) {
	for {
		switch {
		case !open:
			o.over = errors.Join(o.over, client.ErrClosed)
			return
		case end.Err != nil:
			o.over = fmt.Errorf("observe: %w", end.Err)
			return
		}
		select {
		case end, open = <-o.ends:
		default:
			return
		}
	}
}
