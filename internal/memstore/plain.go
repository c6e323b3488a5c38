package memstore

import "github.com/lockd-io/lockd/internal/broker"

// Exclusive holds, and fair ones, which are the same but for the line of those who wait.

// checkPlain ignores the line: who claims a name exclusively and who queues for it do not know each other.
func (w *work) checkPlain(e *entry, c broker.Claim) error {
	if o, left, held := e.holder(w.now); held && e.owner != c.Owner {
		return &broker.HeldError{RetryAfter: left, HeldBy: o}
	}
	return nil
}

func (w *work) takePlain(e *entry, c broker.Claim) broker.Grant {
	if c.Kind == broker.Fair {
		e.line.remove(c.Owner)
	}
	if e.owner == c.Owner { // repeated
		e.count = 1
		e.fenceUntil = w.now.Add(w.fenceTTL)
		return broker.Grant{Fence: e.fence, TTL: later(&e.expires, w.now, c.TTL)}
	}
	e.hold(c.Owner, 1, w.now.Add(c.TTL))
	return broker.Grant{Fence: w.mintLocked(e, w.now), TTL: c.TTL}
}

func (w *work) nestPlain(e *entry, c broker.Claim) (broker.Grant, error) {
	switch {
	case e.owner != c.Owner:
		return broker.Grant{}, broker.ErrNotHeld
	case e.fence != c.Fence:
		return broker.Grant{}, broker.ErrStale
	}
	e.count = c.Count
	e.fenceUntil = w.now.Add(w.fenceTTL)
	return broker.Grant{Fence: e.fence, TTL: later(&e.expires, w.now, c.TTL)}, nil
}

func (w *work) releasePlain(e *entry, r broker.Return) (res broker.Returned, told bool, err error) {
	if r.Kind == broker.Fair {
		e.line.purge(w.now)
		if r.Remaining == 0 {
			e.line.remove(r.Owner)
		}
		defer w.settle(e) // of what is left to tell
	}
	switch {
	case e.owner == "" || e.owner != r.Owner:
		if r.Remaining == 0 && r.Next != nil && e.owner != "" && e.owner == r.Next.Owner {
			return broker.Returned{HandedOver: e.fence}, false, nil // the hand-over was done before
		}
		return res, false, broker.ErrNotHeld
	case r.Fence != 0 && r.Fence != e.fence:
		return res, false, broker.ErrStale
	case r.Remaining > 0:
		e.count = r.Remaining
		return res, false, nil
	}
	if r.Next != nil && (r.Kind == broker.Exclusive || e.line.admits(r.Next.Owner)) {
		if r.Kind == broker.Fair {
			e.line.remove(r.Next.Owner)
		}
		w.ended(e, broker.EndHandedOver, e.fence)
		e.hold(r.Next.Owner, 1, w.now.Add(r.Next.TTL))
		return broker.Returned{HandedOver: w.mintLocked(e, w.now)}, false, nil
	}
	w.ended(e, broker.EndReleased, e.fence)
	e.free()
	if r.Kind == broker.Fair {
		return broker.Returned{Turn: w.freedFair(e)}, true, nil
	}
	w.say(e, onPlain, broker.Notice{What: broker.NoticeReleased})
	return res, true, nil
}

func (w *work) forcePlain(e *entry, kind broker.Kind) (held bool, err error) {
	if kind == broker.Fair {
		e.line.purge(w.now)
		defer w.settle(e)
	}
	switch {
	case e.shared != nil:
		return false, broker.ErrKindMismatch
	case e.owner == "":
		return false, nil
	}
	w.ended(e, broker.EndForced, e.fence)
	e.free()
	if kind == broker.Fair {
		w.freedFair(e)
	} else {
		w.say(e, onPlain, broker.Notice{What: broker.NoticeReleased})
	}
	return true, nil
}
