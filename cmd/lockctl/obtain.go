package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/client"
)

// lockAll waits for the locks, no longer than --wait says. It waits for a server or a store that is away as for a
// holder.
func (x *execution) lockAll(ctx context.Context) (*client.Locks, error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		x.tellHolders(ctx)
	}()
	defer func() {
		cancel()
		<-watched
	}()
	until := time.Now().Add(x.wait)
	var failing time.Time // since when
	for {
		begun := time.Now()
		opts := slices.Clone(x.lock)
		if x.bounded {
			opts = append(opts, client.Wait(time.Until(until)))
		}
		ls, err := x.client.LockAll(ctx, x.items, opts...)
		// else it waited for a holder in between
		if failing.IsZero() || time.Since(begun) > x.connect+client.DefaultAnswerTimeout {
			failing = time.Now()
		}
		if err == nil || !x.goesOn(err, time.Since(failing)) || x.bounded && time.Until(until) <= retryPause {
			return ls, err
		}
		x.waitsFor("the server: "+message(err), "")
		sleep(ctx, retryPause)
	}
}

// goesOn says whether to try again after an error: it only means that the server, or its store, is away, and has not
// been away for too long. The client has waited for a server already, but not for a store.
func (x *execution) goesOn(err error, away time.Duration) bool {
	switch {
	case errors.Is(err, client.ErrTimedOut), errors.Is(err, client.ErrCancelled):
		return false
	case x.patient:
		return repeatable(err)
	}
	reason := client.Reason(err)
	return (reason == "BACKEND_UNAVAILABLE" || reason == "OUTCOME_UNKNOWN") && away+retryPause < x.connect
}

// waitsFor tells what exec waits for when that changes, together with more, whose changes are not told.
func (x *execution) waitsFor(what, more string) {
	x.mu.Lock()
	again := x.told == what
	x.told = what
	x.mu.Unlock()
	if !again {
		x.logf("WAITING: for %s%s", what, more)
	}
}

// tellHolders tells who holds what exec waits for, until ctx ends. It asks now and then, because a waiting request is
// not told everything that matters here.
func (x *execution) tellHolders(ctx context.Context) {
	for pause := retryPause; ; pause = 5 * tellPause {
		if sleep(ctx, pause); ctx.Err() != nil {
			return
		}
		if what, since := x.holders(ctx); what != "" && ctx.Err() == nil {
			x.waitsFor(what, since)
		}
	}
}

// holders says who holds the first of the locks that is held, and for how long. A lock that exec itself holds is passed
// over: its grant is on its way.
func (x *execution) holders(ctx context.Context) (what, since string) {
	for _, i := range x.items {
		v, err := x.inspect(ctx, i.Name, 1)
		x.mu.Lock()
		own := func(h holderView) bool { return h.Session != "" && h.Session == x.id }
		granted := slices.ContainsFunc(v.Holds, own)
		x.mu.Unlock()
		if err == nil && v.Held && !granted {
			who, since := v.heldBy()
			return fmt.Sprintf("%q, held by %s", v.Name, who), since
		}
	}
	return "", ""
}

// heldBy says who holds a lock, the first holder and how many others, and for how long a single holder has held it.
func (v inspectView) heldBy() (who, since string) {
	if len(v.Holds) == 0 {
		return v.holders() + " holders", ""
	}
	first := v.Holds[0]
	who = holder(first.Client, first.Origin)
	if first.Client == "" && first.Owner != "" {
		who += " " + first.Owner
	}
	if first.Annotation != "" {
		who += " (" + first.Annotation + ")"
	}
	if first.Address != "" {
		who += " from " + first.Address
	}
	if others := len(v.Holds) - 1; others > 0 {
		return who + fmt.Sprintf(" and %d more", others), ""
	}
	if first.Age != nil {
		since = " for " + first.Age.String()
	}
	return who, since
}

// nameHolder adds to a refusal who holds the lock, if the replica that refused did not know: it asks all replicas.
func nameHolder(
	ctx context.Context, inspect func(ctx context.Context, name string, waiters uint32) (inspectView, error), err error,
) error {
	held, ok := errors.AsType[*client.HeldError](err)
	if !ok || held.Client != "" || held.Peer != "" {
		return err
	}
	v, _ := inspect(ctx, held.Name, 1) // after an error there are no holds
	for _, h := range v.Holds {
		if h.Owner == held.HeldBy {
			held.Client, held.Annotation, held.Peer = h.Client, h.Annotation, h.Address
			if h.Age != nil {
				held.HeldFor = time.Duration(*h.Age) * time.Millisecond
			}
		}
	}
	return err
}
