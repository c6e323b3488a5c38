package broker

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A request may want to be told who is in the way while it waits. It is told what this replica knows together with its
// position. While it waits on, this replica looks again now and then. If the holder is elsewhere it asks the other
// replicas, as for an operator, for at most a few requests in a second: only what people read depends on it.

const (
	// firstLook is how long a request waits until the first of these looks. Most waits are over by then.
	firstLook = time.Second
	// nextLook is the time between two looks after that.
	nextLook = 5 * time.Second
)

// telling is what a request that wants to know who is in the way was told.
type telling struct {
	held     *lock.HeldError  // what the store answered last, if it did
	told     session.InTheWay // last, without its age
	position int              // told last
	timer    *time.Timer      // of the next look; nil before it waits
}

// aboutLocked is what is known of a holder of a name, if it holds it through this replica.
func (b *Broker) aboutLocked(name string, o lock.Owner) session.InTheWay {
	if o.Repeats() { // only then: the notes of all names share a mutex
		return inTheWay(o, b.Notes.Of(name, o).Info)
	}
	if q := b.shardOf(name).queues[name]; q != nil {
		if l := b.ownedLocked(q, o); l != nil {
			return inTheWay(o, l.holderLocked(time.Now()))
		}
	}
	return session.InTheWay{HeldBy: o}
}

func inTheWay(o lock.Owner, h inspect.Holder) session.InTheWay {
	return session.InTheWay{
		HeldBy: o, Client: h.Client.Name, Peer: h.Client.Peer, Annotation: inspect.Shortened(h.Annotation), HeldFor: h.Age,
	}
}

// hides says whether the client must not be told anything of a name.
func (w *waiter) hides(name string) bool {
	if w.sess != nil {
		return w.sess.hides(name)
	}
	return hidesFrom(w.who, name)
}

// inTheWayLocked is who is known here to be in the way of a request that waits.
func (w *waiter) inTheWayLocked() session.InTheWay {
	name, held := w.q.Name(), w.tells.held
	var by session.InTheWay
	for l := range w.q.leasesLocked() {
		by = inTheWay(l.owner, l.holderLocked(time.Now()))
		break
	}
	if by.HeldBy == "" && held != nil && (held.Name == "" || held.Name == name) {
		by = w.b.aboutLocked(name, held.HeldBy)
	}
	return by
}

// tellQueuedLocked tells a waiting request its position, if that changed, and who is in the way.
func (w *waiter) tellQueuedLocked(position int, changed bool) {
	t := w.tells
	if t == nil {
		if changed {
			w.sess.Tell(session.Queued{ID: w.id, Position: position})
		}
		return
	}
	if changed {
		t.position = position
	}
	w.tellInTheWayLocked(w.inTheWayLocked(), changed)
	if t.timer == nil {
		t.timer = time.AfterFunc(firstLook, func() { w.b.lookAgain(w) })
	}
}

// tellInTheWayLocked tells who is in the way, if that is somebody else than before or the position is to be told. A
// holder of whom less is known than before is not told again.
func (w *waiter) tellInTheWayLocked(by session.InTheWay, position bool) {
	t, name := w.tells, w.q.Name()
	if w.hides(name) {
		by = session.InTheWay{}
	}
	age := by.HeldFor
	by.HeldFor = 0
	if w.all != nil && by.HeldBy != "" {
		by.Name = name
	}
	known := by.HeldBy != "" && by != t.told && (by.HeldBy != t.told.HeldBy || by.Known())
	if !known && !position {
		return
	}
	switch {
	case known:
		t.told = by
	case t.told.Name != "" && t.told.Name != name: // it waits for another one by now
		by, age = session.InTheWay{}, 0
	default:
		by, age = t.told, 0
	}
	by.HeldFor = age
	w.sess.Tell(session.Queued{ID: w.id, Position: t.position, By: &by})
}

// lookAgain looks who is in the way of a request that still waits.
func (b *Broker) lookAgain(w *waiter) {
	w.lock()
	waits := w.Waits()
	var by session.InTheWay
	var name string
	if waits {
		by, name = w.inTheWayLocked(), w.q.Name()
	}
	w.unlock()
	if !waits {
		return
	}
	if !by.Known() {
		if there, ok := b.askInTheWay(w, name); ok {
			by = there
		}
	}
	w.lock()
	defer w.unlock()
	if !w.Waits() {
		return
	}
	if w.q.Name() == name {
		w.tellInTheWayLocked(by, false)
	}
	w.tells.timer.Reset(nextLook)
}

// askInTheWay asks the store and the other replicas who holds a name, unless that was asked often just now.
func (b *Broker) askInTheWay(w *waiter, name string) (by session.InTheWay, ok bool) {
	if _, may := b.looking.Now(limits.LooksPerSecond); !may || w.hides(name) {
		return by, false
	}
	ctx, cancel := context.WithTimeout(b.ctx, firstLook)
	defer cancel()
	if b.looks.Enter(ctx) != nil {
		return by, false
	}
	defer b.looks.Leave()
	b.beginTaking() // the store is left only after it
	defer b.endTaking()
	in, err := b.Inspect(b.ctx, name, 1, 0)
	if err != nil || len(in.Holders) == 0 {
		return by, false
	}
	return inTheWay(in.Holders[0].Owner, in.Holders[0]), true
}
