package broker

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// placeTime is how long a waiter's place in the store outlives this replica.
	placeTime = 6 * time.Second
	// placeInterval is how often it is kept, and how often the head of a queue with places tries.
	placeInterval = placeTime / 3
	// placeRetry is the pause after a failed attempt to keep places.
	placeRetry = 500 * time.Millisecond
	// leaveTime bounds how long a place is given up for. It ends by itself long before, but for others to see that
	// somebody has to look.
	leaveTime = 2 * time.Minute
)

// places are the places of a queue's fair waiters in the store. Fair waiters of all replicas and other programs wait
// in one queue there; a place lives as long as it is kept. Broker.mu guards all fields.
type places struct {
	of     map[lock.Owner]*waiter
	fresh  []*waiter // have no place yet
	failed bool      // others have none either: they come first
	keepAt time.Time // when the next round begins, which keeps all
	round  cursor    // where the round goes on; at the end between rounds
	early  []*waiter // came to the front during the round, which would miss them
	tried  bool      // an attempt was made since the last piece of the round
}

// placePiece is how many places are kept at a time. The mutex is held for so many only.
const placePiece = 500

// placeLocked begins to keep a place for a fair waiter.
func (q *queue) placeLocked(w *waiter) {
	if w.claim.Kind != lock.Fair || w.all != nil || w.try {
		return
	}
	if q.places == nil {
		q.places = &places{of: make(map[lock.Owner]*waiter), keepAt: time.Now().Add(placeInterval)}
	}
	q.places.of[w.claim.Owner] = w
	q.places.fresh = append(q.places.fresh, w)
	q.signal()
}

// unplaceLocked gives up the place of a waiter that leaves.
func (b *Broker) unplaceLocked(w *waiter) {
	if q := w.q; q.places != nil && q.places.of[w.claim.Owner] == w {
		delete(q.places.of, w.claim.Owner)
		if len(q.places.of) == 0 {
			q.places = nil
		}
	}
	if w.placed && !w.trying && !w.listing {
		b.leavePlaceLocked(w)
	}
}

// dueLocked are some of the waiters whose places are to be kept now. Every placeInterval a round begins that keeps all, in
// the order of the queue; an attempt may be made between two pieces of it. Otherwise the new ones are due, if there is
// nothing better to do.
func (p *places) dueLocked(q *queue, now time.Time, idle bool) (due []*waiter) {
	switch {
	case p == nil:
		return nil
	case p.round.at != nil && !idle && !p.tried:
		p.tried = true
		return nil
	case p.round.at != nil:
	case !now.Before(p.keepAt):
		p.fresh, p.failed, p.keepAt = nil, false, now.Add(placeInterval)
		p.round.at = q.waiters.front
	case p.failed || !idle:
		return nil
	default:
		return p.freshLocked()
	}
	return p.pieceLocked()
}

// freshLocked are some of those that have no place yet.
func (p *places) freshLocked() (due []*waiter) {
	n := min(len(p.fresh), placePiece)
	for _, w := range p.fresh[:n] {
		if !w.gone && !w.placed && !w.trying {
			due = append(due, w)
		}
	}
	if p.fresh = p.fresh[n:]; len(p.fresh) == 0 {
		p.fresh = nil
	}
	return due
}

// pieceLocked goes on with the round.
func (p *places) pieceLocked() (due []*waiter) {
	add := func(w *waiter) {
		if p.of[w.claim.Owner] == w && !w.trying {
			due = append(due, w)
		}
	}
	for _, w := range p.early {
		add(w)
	}
	p.early, p.tried = nil, false
	for range placePiece {
		if p.round.at == nil {
			break
		}
		add(p.round.at)
		p.round.at = p.round.at.behind
	}
	return due
}

// moreLocked says whether another piece follows at once.
func (p *places) moreLocked() bool {
	return p != nil && (p.round.at != nil || !p.failed && len(p.fresh) > 0)
}

// earlyLocked takes note of a waiter that came to the front.
func (p *places) earlyLocked(w *waiter) {
	if p != nil && p.round.at != nil && !slices.Contains(p.early, w) {
		p.early = append(p.early, w)
	}
}

// enlist keeps places, and tells new ones their position.
func (b *Broker) enlist(q *queue, ws []*waiter) {
	owners := make([]lock.Owner, len(ws))
	b.mu.Lock()
	for i, w := range ws {
		owners[i] = w.claim.Owner
		w.listing, w.placed = true, true
	}
	b.mu.Unlock()
	positions, err := b.store.Enlist(b.ctx, q.name, owners, placeTime)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && q.places != nil {
		q.places.failedLocked()
	}
	for i, w := range ws {
		w.listing = false
		switch {
		case w.gone:
			b.leavePlaceLocked(w)
		case err != nil:
		case positions[i] == lock.PlaceHolds: // by an attempt that was not answered
			q.toFrontLocked(w)
			q.wakeLocked()
		case positions[i] >= 0:
			b.parkLocked(w, positions[i])
		}
	}
}

// failedLocked has all places kept soon, in the order of the queue.
func (p *places) failedLocked() {
	p.failed, p.round.at, p.early = true, nil, nil
	if at := time.Now().Add(placeRetry); at.Before(p.keepAt) {
		p.keepAt = at
	}
}

// insteadLocked has another fair waiter of this replica tried instead of one that was refused because of it: it holds
// the name by an attempt that was not answered, or it is its turn.
func (q *queue) insteadLocked(w *waiter, o lock.Owner) bool {
	if q.places == nil || q.places.of[o] == nil || q.places.of[o] == w || !q.meantLocked(lock.Notice{For: o}) {
		return false
	}
	q.wakeLocked()
	return true
}

// meantLocked says whether a notice may concern a waiter of this queue, and brings the one it names to the front:
// in the store it is the next one.
func (q *queue) meantLocked(n lock.Notice) bool {
	if n.For == "" {
		return true
	}
	if q.places == nil {
		return false
	}
	w := q.places.of[n.For]
	if w == nil {
		return false
	}
	if w.lined {
		q.toFrontLocked(w)
	}
	return true
}

// heardPlaces is how many of its first waiters a queue listens for, each on its own. The others take over in time.
const heardPlaces = 3

// nextLocked are the first fair waiters of a queue.
func (q *queue) nextLocked() (next []lock.Owner) {
	if q.places == nil {
		return nil
	}
	for w := q.waiters.front; w != nil && len(next) < heardPlaces; w = w.behind {
		if q.places.of[w.claim.Owner] == w {
			next = append(next, w.claim.Owner)
		}
	}
	return next
}

// placeKey is what places are given up together.
type placeKey struct {
	name string
	kind lock.Kind
}

// leavePlaceLocked gives up a place in the background, until the store acknowledges it; not that of a unary caller that is
// here once more.
func (b *Broker) leavePlaceLocked(w *waiter) {
	if b.closed || w.q.places != nil && w.q.places.of[w.claim.Owner] != nil {
		return
	}
	k := placeKey{w.claim.Name, w.claim.Kind}
	owners, busy := b.leaving[k]
	b.leaving[k] = append(owners, w.claim.Owner)
	if !busy {
		b.goTakingLocked(func() { b.leavePlaces(k) })
	}
}

// leavePlaces gives up places until there are none left to give up.
func (b *Broker) leavePlaces(k placeKey) {
	end := time.Now().Add(leaveTime)
	for n := 1; ; n++ {
		b.mu.Lock()
		owners := b.leaving[k]
		if len(owners) == 0 || b.ctx.Err() != nil {
			delete(b.leaving, k)
			b.mu.Unlock()
			return
		}
		b.leaving[k] = []lock.Owner{}
		b.mu.Unlock()
		if err := b.store.Leave(b.ctx, k.name, k.kind, owners); !retriable(err) {
			n, end = 0, time.Now().Add(leaveTime)
			continue
		}
		if time.Now().Before(end) {
			b.mu.Lock()
			b.leaving[k] = append(b.leaving[k], owners...)
			b.mu.Unlock()
		}
		b.pause(backoff(n))
	}
}
