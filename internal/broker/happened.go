package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// What happens to a name is added to the history where it is decided. Package inspect reads that.

// HistoryBytes is how much memory the history takes. It has no pointers.
func (b *Broker) HistoryBytes() uint64 { return b.history.Bytes() }

// toldOf is what the history tells of a client.
func toldOf(c session.Client) *history.Client {
	return &history.Client{Name: c.Name, Peer: c.Peer, Identity: c.Identity}
}

// happened adds what happened to a lease. e has what the lease does not tell.
func (l *Lease) happened(what history.What, at time.Time, e history.Event) {
	e.What, e.Name, e.Kind, e.Owner, e.Fence, e.Permits = what, l.name, l.kind, l.owner, l.fence, l.permits
	e.Client, e.Annotation = l.sess.told, l.annotation
	if what != history.Granted {
		e.Held = l.heldFor(at)
	}
	l.b.history.Add(at, e)
}

// heldFor is for how long the lease was held at a time, here and elsewhere.
func (l *Lease) heldFor(at time.Time) time.Duration { return l.before + at.Sub(l.b.time(l.since)) }

// told is what the history tells of its client.
func (w *waiter) told() *history.Client {
	if w.sess != nil {
		return w.sess.told
	}
	return &history.Client{Name: w.client, Peer: w.peer, Identity: nameOf(w.who)}
}

// happened adds what happened to a request for a name.
func (w *waiter) happened(what history.What, c lock.Claim, at time.Time, e history.Event) {
	e.What, e.Name, e.Kind, e.Owner, e.Permits = what, c.Name, c.Kind, c.Owner, c.Permits
	e.Client, e.Annotation, e.Waited = w.told(), w.annotation, at.Sub(w.firstAsked())
	w.b.history.Add(at, e)
}

// queued adds once that a request has to wait, for each of its names.
func (w *waiter) queued() {
	if w.parked {
		return
	}
	w.parked = true
	now := time.Now()
	for _, c := range w.claimed() {
		w.happened(history.Queued, c, now, history.Event{})
	}
}

// leftCauses are the reasons why a waiting request left.
var leftCauses = append([]string{"withdrawn"}, acquireResults...)

// refused adds once that a waiting request was not granted, and ends its span.
func (w *waiter) refused(cause error) {
	w.spanRefused(cause)
	if !w.parked {
		return
	}
	w.parked = false
	why := &history.Why{Cause: labelOf(cause, leftCauses)}
	for _, c := range w.claimed() {
		w.happened(history.Left, c, time.Now(), history.Event{Why: why})
	}
}

// released adds that a lease was released, or that nobody knows whether it was.
func (h *handoff) released(at time.Time) {
	what, e := history.Released, history.Event{}
	if h.res.HandedOver != 0 {
		what = history.HandedOver
	}
	switch {
	case errors.Is(h.err, lock.ErrNotHeld):
		e.Why = &history.Why{Cause: "not_held"}
	case h.err != nil:
		e.Why = &history.Why{Cause: "unknown"}
	case h.id == 0:
		e.Why = &history.Why{Cause: lock.LostSession.String()}
	}
	h.of.happened(what, at, e)
}

// lostFor is why a lease was lost.
func lostFor(lost session.Lost) history.Event {
	return history.Event{Why: &history.Why{Cause: lost.Reason.String(), By: lost.Who(), Text: lost.Forced.Why}}
}

// forcedNow adds that a name was released by force, whoever held it.
func (b *Broker) forcedNow(name string, k lock.Kind) {
	f := b.ForcedBy(name)
	b.history.Add(time.Now(), history.Event{
		What: history.Forced, Name: name, Kind: k, Why: &history.Why{By: f.Who(), Text: f.Why},
	})
}

// limited adds that somebody changed the limit of a semaphore.
func (b *Broker) limited(req request.SetLimit) {
	b.history.Add(time.Now(), history.Event{
		What: history.LimitChanged, Name: req.Name, Kind: lock.Semaphore, Permits: req.Limit, Client: toldOf(req.By),
	})
}

// releasedOnce adds that a unary lease was released.
func (b *Broker) releasedOnce(r lock.Return, n inspect.Note) {
	h := n.Info
	b.history.Add(time.Now(), history.Event{
		What: history.Released, Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: h.Fence, Held: h.Age,
		Permits: h.Permits, Annotation: h.Annotation, Client: toldOf(h.Client),
	})
}

// Oldest implements inspect.Local.
func (o local) Oldest(most int) (names []string) {
	type hold struct {
		name  string
		since time.Time
	}
	longest := limits.First[hold]{Most: most, Compare: func(a, b hold) int { return a.since.Compare(b.since) }}
	o.eachShard(func(h *shard) {
		h.leases.Ascend(func(l *Lease) bool {
			longest.Add(hold{l.name, o.time(l.since).Add(-l.before)})
			return true
		})
	})
	all, _ := longest.All()
	for _, l := range all {
		names = append(names, l.name)
	}
	return names
}
