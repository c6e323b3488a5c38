package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Holds of one owner alone: exclusive, fair and write holds. They differ in who is in their way, and in who waits for
// them.

// checkExclusive ignores the queue: an exclusive claim and a fair one do not know each other.
func (w *work) checkExclusive(e *entry, c lock.Claim) error {
	if o, left, held := e.holder(w.now); held && !e.alone(c.Kind, c.Owner) {
		return &lock.HeldError{RetryAfter: left, HeldBy: o}
	}
	return nil
}

// checkWrite refuses a claim while another owner holds the name. A refused claim keeps new readers away for as long as
// its place lasts.
func (w *work) checkWrite(e *entry, c lock.Claim) error {
	held := lock.HeldError{HeldBy: e.owner, RetryAfter: e.expires.Sub(w.now)}
	if e.alone(c.Kind, c.Owner) {
		return nil
	}
	if e.owner == "" {
		if len(e.readers) == 0 {
			return nil
		}
		first, last := e.reads()
		held.HeldBy, held.RetryAfter = first, last.Sub(w.now)
	}
	if c.Place > 0 {
		if e.wish == "" {
			e.wish, e.wishUntil = c.Owner, w.now
		}
		later(&e.wishUntil, w.now, c.Place)
	}
	return &held
}

func (w *work) takeAlone(e *entry, c lock.Claim) lock.Grant {
	w.leavePlace(e, c.Kind, c.Owner, false)
	if e.alone(c.Kind, c.Owner) { // repeated
		return lock.Grant{Fence: e.own, TTL: later(&e.expires, w.now, c.TTL)}
	}
	return w.hand(e, c.Kind, lock.Successor{Owner: c.Owner, TTL: c.TTL, Fence: c.Fence})
}

// hand gives a free name to an owner. It forgets the mark of any waiting writer, which sets it again; readers may come
// in between.
func (w *work) hand(e *entry, kind lock.Kind, to lock.Successor) lock.Grant {
	if kind == lock.Write {
		e.wish = ""
	}
	e.hold = hold{
		shared: kind == lock.Write, owner: to.Owner, own: w.mint(e, to.Fence), expires: w.now.Add(to.TTL),
	}
	return lock.Grant{Fence: e.own, TTL: to.TTL}
}

func (w *work) renewAlone(e *entry, r lock.Renewal) (left time.Duration, there bool) {
	if !e.alone(r.Kind, r.Owner) || r.Fence > e.own {
		return 0, false
	}
	return later(&e.expires, w.now, r.TTL), true
}

// releaseAlone frees the name, hands it over, or leaves it to those who read beside the writer.
func (w *work) releaseAlone(e *entry, r lock.Return) (res lock.Returned, err error) {
	holds := e.alone(r.Kind, r.Owner)
	if r.Kind == lock.Fair {
		e.queue.purge(w.now)
	}
	if r.Place == 0 {
		w.leavePlace(e, r.Kind, r.Owner, !holds)
	}
	switch {
	case !holds && r.Next != nil && e.alone(r.Kind, r.Next.Owner): // the handoff was done before
		later(&e.expires, w.now, r.Next.TTL)
		return lock.Returned{HandedOver: e.own}, nil
	case !holds:
		return res, lock.ErrNotHeld
	case r.Fence != 0 && r.Fence != e.own:
		return res, lock.ErrStale
	}
	if r.Next != nil && len(e.readers) == 0 && (r.Kind != lock.Fair || e.queue.admits(r.Next.Owner)) {
		w.leavePlace(e, r.Kind, r.Next.Owner, false)
		w.ended(e, lock.EndHandedOver, e.own)
		return lock.Returned{HandedOver: w.hand(e, r.Kind, *r.Next).Fence}, nil
	}
	w.ended(e, lock.EndReleased, e.own)
	e.owner, e.own = "", 0
	if r.Place > 0 {
		e.queue.comeBack(r.Owner, w.now.Add(r.Place))
	}
	w.drain(e)
	w.told = true
	return lock.Returned{Turn: w.freed(e, r.Kind)}, nil
}

// leavePlace gives up the place of an owner. With tell it tells the readers whom a writer kept away.
func (w *work) leavePlace(e *entry, kind lock.Kind, o lock.Owner, tell bool) {
	switch {
	case kind == lock.Fair:
		e.queue.remove(o)
	case kind == lock.Write && o != "" && e.wish == o:
		if e.wish = ""; tell {
			w.freed(e, lock.Write)
		}
	}
}

// force frees the name of a lock, whoever holds it.
func (w *work) force(e *entry, kind lock.Kind) (held bool, err error) {
	if kind == lock.Fair {
		e.queue.purge(w.now)
	}
	ofReadWrite := kind == lock.Read || kind == lock.Write
	switch {
	case e.held() && e.shared != ofReadWrite:
		return false, lock.ErrKindMismatch
	case !e.held(), ofReadWrite && (e.owner != "") != (kind == lock.Write):
		return false, nil
	}
	if e.owner != "" {
		w.ended(e, lock.EndForced, e.own)
	}
	for _, r := range e.readers {
		w.ended(e, lock.EndForced, r.fence)
	}
	e.hold = hold{}
	w.freed(e, kind)
	return true, nil
}
