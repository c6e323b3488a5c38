package arbiter

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// PlaceTime is how long a waiter's place in the store outlives this replica.
	PlaceTime = 6 * time.Second
	// placeInterval is how often it is kept, and how often the head of a queue with places is asked for.
	placeInterval = PlaceTime / 3
	// placeRetry is the pause after a failed attempt to keep places.
	placeRetry = placeInterval / 4
	// placePiece is how many places are kept at a time. The mutex is held for so many only.
	placePiece = 500
	// heardPlaces is how many of its first waiters a queue listens for, each on its own. The others take over in time.
	heardPlaces = 3
)

// places are the places of a queue's fair waiters in the store. Fair waiters of all replicas and other programs wait
// in one queue there; a place lives as long as it is kept.
type places[R any] struct {
	of     map[lock.Owner]*Waiter[R]
	all    []*Waiter[R] // in the order in which they came; also some that left since the last round
	fresh  int          // those from here on have no place yet
	failed bool         // others have none either: they come first
	keepAt time.Time    // when the next round begins, which keeps all
	round  bool         // one is under way
	at     int          // where it goes on
	stay   int          // how many of those before that are left; they stand in front
	tried  bool         // an attempt was made since the last piece of the round
}

// Placed is the waiter that has the place of an owner; nil if there is none.
func (q *Queue[R]) Placed(o lock.Owner) *Waiter[R] {
	if q.places == nil {
		return nil
	}
	return q.places.of[o]
}

// Place begins to keep a place for a fair waiter.
func (q *Queue[R]) Place(w *Waiter[R], now time.Time) {
	if w.Claim.Kind != lock.Fair || w.Several || w.Try() {
		return
	}
	if q.places == nil {
		q.places = &places[R]{of: make(map[lock.Owner]*Waiter[R]), keepAt: now.Add(placeInterval)}
	}
	q.changed = true
	if p := q.places; p.of[w.Claim.Owner] != w {
		p.of[w.Claim.Owner] = w
		p.all = append(p.all, w)
	}
}

// unplace keeps the place of a waiter that leaves no more.
func (q *Queue[R]) unplace(w *Waiter[R]) {
	if q.Placed(w.Claim.Owner) == w {
		delete(q.places.of, w.Claim.Owner)
		if len(q.places.of) == 0 {
			q.places = nil
		}
	}
}

// due are some of the waiters whose places are to be kept now. Every placeInterval a round begins that keeps all; an
// attempt may be made between two pieces of it. Otherwise the new ones are due, if there is nothing better to do.
func (p *places[R]) due(now time.Time, idle bool) (due []*Waiter[R]) {
	switch {
	case p == nil:
		return nil
	case p.round && !idle && !p.tried:
		p.tried = true
		return nil
	case p.round:
	case !now.Before(p.keepAt):
		p.round, p.failed, p.keepAt = true, false, now.Add(placeInterval)
	case p.failed || !idle:
		return nil
	default:
		return p.newOnes()
	}
	return p.piece()
}

// newOnes are some of those that have no place yet.
func (p *places[R]) newOnes() (due []*Waiter[R]) {
	end := min(p.fresh+placePiece, len(p.all))
	for _, w := range p.all[p.fresh:end] {
		if !w.Answered() && !w.placed && !w.Asking() {
			due = append(due, w)
		}
	}
	p.fresh = end
	return due
}

// piece goes on with the round.
func (p *places[R]) piece() (due []*Waiter[R]) {
	p.tried = false
	for end := min(p.at+placePiece, len(p.all)); p.at < end; p.at++ {
		w := p.all[p.at]
		if p.of[w.Claim.Owner] != w {
			continue
		}
		p.all[p.stay] = w
		p.stay++
		if !w.Asking() {
			due = append(due, w)
		}
	}
	if p.at == len(p.all) {
		p.endRound()
	}
	return due
}

// endRound drops those that left.
func (p *places[R]) endRound() {
	p.all = slices.Delete(p.all, p.stay, p.at)
	p.round, p.at, p.stay, p.fresh = false, 0, 0, len(p.all)
}

// more says whether another piece follows at once.
func (p *places[R]) more() bool {
	return p != nil && (p.round || !p.failed && p.fresh < len(p.all))
}

// Enlist notes that the caller asks the store to keep the places of some waiters, and returns their owners. Call
// Enlisted for each after it.
func (q *Queue[R]) Enlist(ws []*Waiter[R]) []lock.Owner {
	owners := make([]lock.Owner, len(ws))
	for i, w := range ws {
		owners[i] = w.Claim.Owner
		w.enlisting, w.placed = true, true
	}
	return owners
}

// Enlisted notes what that call said of one of them. If leavePlace is set, the waiter left meanwhile and its place is
// to be given up. One that holds the name, by an attempt that was not answered, is asked for next. tell is the position
// to tell it, or -1.
func (q *Queue[R]) Enlisted(w *Waiter[R], position int, err error) (tell int, leavePlace bool) {
	w.enlisting = false
	switch {
	case w.Answered() || !w.listed:
		return -1, true
	case err != nil:
	case position == lock.PlaceHolds:
		q.waiters.toFront(w)
		q.Wake()
	default:
		return position, false
	}
	return -1, false
}

// NotEnlisted has all places kept soon, in their order.
func (q *Queue[R]) NotEnlisted(now time.Time) {
	p := q.places
	if p == nil {
		return
	}
	p.failed = true
	p.endRound()
	if at := now.Add(placeRetry); at.Before(p.keepAt) {
		p.keepAt = at
	}
}

// askOther has another fair waiter of this replica asked for, because of which one was refused: it holds the name by an
// attempt that was not answered, or it is its turn.
func (q *Queue[R]) askOther(w *Waiter[R], o lock.Owner) bool {
	if p := q.Placed(o); p == nil || p == w || !q.meant(o) {
		return false
	}
	q.Wake()
	return true
}

// meant says whether it may be the turn of a waiter of this queue, and brings the one that is named to the front: in
// the store it is the next one. "" names nobody, and may mean all.
func (q *Queue[R]) meant(o lock.Owner) bool {
	if o == "" {
		return true
	}
	w := q.Placed(o)
	if w != nil && w.listed {
		q.waiters.toFront(w)
	}
	return w != nil
}

// nextPlaced are the first fair waiters.
func (q *Queue[R]) nextPlaced() (next []lock.Owner) {
	if q.places == nil {
		return nil
	}
	for w := q.waiters.front; w != nil && len(next) < heardPlaces; w = w.behind {
		if q.places.of[w.Claim.Owner] == w {
			next = append(next, w.Claim.Owner)
		}
	}
	return next
}
