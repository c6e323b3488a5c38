package broker

import "github.com/lockd-io/lockd/internal/lock"

// A unary caller that chose its lease id may repeat its request with it: after a lost answer, or while the first call
// is still under way. What it may have been given is therefore not taken back, because it could be what the repetition was
// told. In exchange it is told "no" only if it surely has nothing. Else the outcome is unknown: it repeats, or releases.

// own counts the requests with the same lease id.
type own struct {
	waiting int
	ghosts  int // left, with an attempt under way
}

func (b *Broker) ownLocked(w *waiter, waiting, ghosts int) {
	if !w.ownID {
		return
	}
	n := b.own[w.claim.Owner]
	n.waiting += waiting
	n.ghosts += ghosts
	b.own[w.claim.Owner] = n
	if n == (own{}) {
		delete(b.own, w.claim.Owner)
	}
}

// refuseLocked answers a waiter that it was not granted.
func (b *Broker) refuseLocked(w *waiter, e Event) {
	if w.ownID && (w.outcomeUnknown || w.trying || b.own[w.claim.Owner].ghosts > 0) {
		e = Failed{ID: w.id, Err: lock.ErrOutcomeUnknown}
	}
	b.removeLocked(w)
	b.answerLocked(w, e)
}

// leaveToTwin leaves what an attempt may have taken to a repetition of a request that has left.
func (b *Broker) leaveToTwin(w *waiter, granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaveToTwinLocked(w, granted)
}

func (b *Broker) leaveToTwinLocked(w *waiter, granted bool) {
	b.ownLocked(w, 0, -1)
	if granted {
		b.tellTwinLocked(w)
	}
}

// tellTwinLocked has another request with the same lease id tried at once: it has the lock by now.
func (b *Broker) tellTwinLocked(w *waiter) {
	if b.own[w.claim.Owner].waiting == 0 {
		return
	}
	q := b.queueLocked(w.claim.Name)
	for twin := q.waiters.front; twin != nil; twin = twin.behind {
		if twin.claim.Owner == w.claim.Owner && twin != w {
			b.tryNextLocked(twin)
			break
		}
	}
	b.dropIdleLocked(q)
}
