package broker

import (
	"context"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// What a session asks of a lease that it holds, or says that it holds. These methods implement session.Lease.

// Entry is what its session keeps of the lease.
func (l *Lease) Entry() *session.Entry { return &l.entry }

// Hold is what never changes.
func (l *Lease) Hold() session.Hold {
	return session.Hold{Name: l.name, Kind: l.kind, Holder: l.holder, Fence: l.fence, AcquiredBy: l.request}
}

// Terms are its mode and validity, and what it costs to renew it.
func (l *Lease) Terms() session.Terms {
	return session.Terms{Auto: l.auto, Until: l.until, Most: l.most.until, Weight: l.Weight()}
}

// Describe tells what it is like, if it is still held.
func (l *Lease) Describe() (h session.HeldLock, held bool) {
	l.lock()
	defer l.unlock()
	return session.HeldLock{
		Hold: l.Hold(), Validity: l.sess.Validity(l.Terms()), Count: l.count, Auto: l.auto, Permits: l.permits,
		Most: l.most.until,
	}, !l.over
}

// Hurry has it renewed now.
func (l *Lease) Hurry() {
	l.lock()
	defer l.unlock()
	if !l.over {
		l.b.keeper.Hurry(l)
	}
}

// Leave lets it run out by itself, or go on elsewhere.
func (l *Lease) Leave(elsewhere bool) {
	l.lock()
	defer l.unlock()
	if l.over {
		return
	}
	if elsewhere {
		l.happened(history.MovedAway, time.Now(), history.Event{})
	} else {
		lost := session.Lost{Hold: l.Hold(), Reason: lock.LostSession}
		l.b.metrics.lost.WithLabelValues(lock.LostSession.String()).Inc()
		l.sess.Trace(lost)
		l.happened(history.Lost, time.Now(), lostFor(lost))
	}
	l.overLocked(false)
	l.b.dropHoldLocked(l)
}

// Release begins to release it at the end of its session, after what is under way for it.
func (l *Lease) Release() {
	l.lock()
	defer l.unlock()
	l.doLocked(func() {
		if l.over {
			l.sess.LeaseReleased()
		} else {
			l.b.startReleaseLocked(l, 0)
		}
		l.opOverLocked()
	})
}

// Forbid ends it because its client may not lock the name, and says whether it was held. The store has it until Free.
func (l *Lease) Forbid() (was bool) {
	l.lock()
	defer l.unlock()
	if l.over {
		return false
	}
	l.loseLocked(lock.LostForbidden)
	return true
}

// Free has the store free the name, and calls done when it has answered.
func (l *Lease) Free(done func()) {
	l.b.beginTaking()
	l.b.store.StartRelease(l.returnAll(), func(lock.Returned, error) {
		defer l.b.endTaking()
		done()
	})
}

// claim finds out what became of a hold that a session says it has. How many permits it had at first is not known: the
// client tells how many are to stay.
func (s *Session) claim(ctx context.Context, h session.HeldLock) (session.Lease, session.Lost, error) {
	l := &Lease{
		b: s.b, sess: s, name: h.Hold.Name, kind: h.Hold.Kind, holder: h.Hold.Holder, request: h.Hold.AcquiredBy,
		owner: ownerOf(s.ID(), h.Hold.Holder, h.Hold.AcquiredBy), fence: h.Hold.Fence, permits: h.Permits,
		auto: h.Auto, count: h.Count, extras: nothing,
	}
	if h.Age > 0 || h.Annotation != "" {
		l.own().before, l.own().annotation = request.PastOf(h.Age), h.Annotation
	}
	if h.MaxHold != nil {
		l.limitLocked(time.Now(), lasting(request.PastOf(*h.MaxHold)))
	}
	err := l.verify(ctx)
	_, gone := errors.AsType[*lock.GoneError](err)
	switch {
	case err == nil:
		return l, session.Lost{}, nil
	case (gone || errors.Is(err, lock.ErrKindMismatch)) && s.hides(h.Hold.Name): // it may never have had it
		return nil, session.Lost{Hold: h.Hold, Reason: lock.LostForbidden}, nil
	case gone, errors.Is(err, lock.ErrKindMismatch):
		return nil, s.b.lostBy(h.Hold, reasonOf(err)), nil
	}
	return nil, session.Lost{}, err
}

// hides says whether nothing of a name is to be told, because the client may not look at it.
func (s *Session) hides(name string) bool { return hidesFrom(s.Identity(), name) }

func hidesFrom(who session.Identity, name string) bool { return who != nil && who.MayLook(name) != nil }

// verify finds out whether the hold is there, and until when. An auto lease is prolonged.
func (l *Lease) verify(ctx context.Context) (err error) {
	defer func() { l.since = l.b.stamp(time.Now()) }()
	r, start := l.verification(), time.Now()
	r.TTL = time.Millisecond
	if l.auto {
		r.TTL = l.most.within(l.sess.TTL(), start)
	}
	if l.until, err = l.b.extendOne(ctx, r, false); err == nil {
		l.seen, l.until = l.b.stamp(start), l.most.last(l.until)
	}
	return err
}

// Adopt adds a verified lease to its session, unless the session has ended.
func (l *Lease) Adopt() bool {
	b, h := l.b, l.b.shardOf(l.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	l.q = b.queueLocked(l.name)
	if !l.sess.Bring(l) {
		l.q.dropIdleLocked()
		return false
	}
	l.q.holdLocked(l)
	h.leases.ReplaceOrInsert(l)
	b.metrics.held[l.kind].Inc()
	b.keepNewLocked(l)
	l.happened(history.Resumed, time.Now(), history.Event{})
	return true
}

// lostBy is what a client is told of a hold that it lost.
func (b *Broker) lostBy(h session.Hold, reason lock.LostReason) session.Lost {
	lost := session.Lost{Hold: h, Reason: reason}
	if reason == lock.LostForced {
		lost.Forced = b.ForcedBy(h.Name)
	}
	return lost
}

// reasonOf is why a hold was not found.
func reasonOf(err error) lock.LostReason {
	if gone, ok := errors.AsType[*lock.GoneError](err); ok {
		return gone.Reason
	}
	return lock.LostForced
}
