package memstore

import "github.com/lockd-io/lockd/internal/lock"

// Exclusive holds, and fair ones, which are the same but for the line of those who wait.

// checkPlain ignores the line: who claims a name exclusively and who queues for it do not know each other.
func (w *work) checkPlain(e *entry, c lock.Claim) error {
	if o, left, held := e.holder(w.now); held && e.owner != c.Owner {
		return &lock.HeldError{RetryAfter: left, HeldBy: o}
	}
	return nil
}

func (w *work) takePlain(e *entry, c lock.Claim) lock.Grant {
	if c.Kind == lock.Fair {
		e.line.remove(c.Owner)
	}
	if e.owner == c.Owner { // repeated
		e.count = 1
		e.fenceUntil = w.now.Add(w.fenceTTL)
		return lock.Grant{Fence: e.fence, TTL: later(&e.expires, w.now, c.TTL)}
	}
	e.hold(c.Owner, 1, w.now.Add(c.TTL))
	return lock.Grant{Fence: w.mintLocked(e, w.now, c.Fence), TTL: c.TTL}
}

func (w *work) nestPlain(e *entry, c lock.Claim) (lock.Grant, error) {
	switch {
	case e.owner != c.Owner:
		return lock.Grant{}, lock.ErrNotHeld
	case e.fence != c.Fence:
		return lock.Grant{}, lock.ErrStale
	}
	e.count = c.Count
	e.fenceUntil = w.now.Add(w.fenceTTL)
	return lock.Grant{Fence: e.fence, TTL: later(&e.expires, w.now, c.TTL)}, nil
}

func (w *work) releasePlain(e *entry, r lock.Return) (res lock.Returned, told bool, err error) {
	if r.Kind == lock.Fair {
		e.line.purge(w.now)
		if r.Remaining == 0 {
			e.line.remove(r.Owner)
		}
		defer w.settle(e) // of what is left to tell
	}
	switch {
	case e.owner == "" || e.owner != r.Owner:
		if r.Remaining == 0 && r.Next != nil && e.owner != "" && e.owner == r.Next.Owner {
			later(&e.expires, w.now, r.Next.TTL)
			return lock.Returned{HandedOver: e.fence}, false, nil // the hand-over was done before
		}
		return res, false, lock.ErrNotHeld
	case r.Fence != 0 && r.Fence != e.fence:
		return res, false, lock.ErrStale
	case r.Remaining > 0:
		e.count = r.Remaining
		return res, false, nil
	}
	if r.Next != nil && (r.Kind == lock.Exclusive || e.line.admits(r.Next.Owner)) {
		if r.Kind == lock.Fair {
			e.line.remove(r.Next.Owner)
		}
		w.ended(e, lock.EndHandedOver, e.fence)
		e.hold(r.Next.Owner, 1, w.now.Add(r.Next.TTL))
		return lock.Returned{HandedOver: w.mintLocked(e, w.now, r.Next.Fence)}, false, nil
	}
	w.ended(e, lock.EndReleased, e.fence)
	e.free()
	if r.Kind == lock.Fair {
		return lock.Returned{Turn: w.freedFair(e)}, true, nil
	}
	w.say(e, onPlain, lock.Notice{What: lock.NoticeReleased})
	return res, true, nil
}

func (w *work) forcePlain(e *entry, kind lock.Kind) (held bool, err error) {
	if kind == lock.Fair {
		e.line.purge(w.now)
		defer w.settle(e)
	}
	switch {
	case e.shared != nil:
		return false, lock.ErrKindMismatch
	case e.owner == "":
		return false, nil
	}
	w.ended(e, lock.EndForced, e.fence)
	e.free()
	if kind == lock.Fair {
		w.freedFair(e)
	} else {
		w.say(e, onPlain, lock.Notice{What: lock.NoticeReleased})
	}
	return true, nil
}
