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
	// ID is that of the Candidate. For a leader that did not Campaign with this package it is HeldBy.
	ID string
	// Client is the name of the leader's client, and Annotation that of the Candidate. They are empty where the replica
	// that answered does not serve the leader.
	Client, Annotation string
	// Fence is that of the term.
	Fence uint64
	// HeldBy is the leader as the store knows it. It is empty when nobody leads.
	HeldBy string
	// TTL is how long the term lasts at least, unless the leader resigns, as known when this was told.
	TTL time.Duration
}

// Vacant says that nobody leads.
func (l Leader) Vacant() bool { return l.HeldBy == "" }

// same says whether it is the same term.
func (l Leader) same(other Leader) bool { return l.HeldBy == other.HeldBy && l.Fence == other.Fence }

// Leader asks who leads now. The answer may be outdated when it arrives. A server that does not answer in time is
// client.ErrUnavailable.
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
// The server pushes the end of each term, and then is asked who leads. While nobody does it is asked again, after 50 ms
// and then less and less often, at most once a second: there is no push for a beginning. While somebody leads it is
// asked again when the leader's lease would have ended, or after 10 s.
//
// While the server cannot be reached the leader of before is told, once, with an error that is client.ErrUnavailable:
// that may have changed. When it answers again, who leads is told, also if it is the same. Any other error is the last
// that is told, as client.ErrForbidden or client.ErrClosed. Observe may be called again.
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

// look asks who leads, and to be told of changes before.
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

// heard takes in what was pushed, all of it: one look tells who leads after that.
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
