package broker

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// A request that waited when its stream broke is made again when the session goes on. It has a new owner then: the
// replica that it left may undo at any time what it did for the old one. So what the old owner may have is undone
// first; a fair request passes its place on. A session may leave a replica before that is done. Then the request has
// had several owners, and any of them may have something.

// mostFormer is how many owners a request may have had before.
const mostFormer = 16

// checkInstead says whether a request can have had these ids before.
func (s *Session) checkInstead(ids []uint64) error {
	invalid := func(field, detail string) error {
		return lock.Invalid(field, lock.ReasonMessage, detail)
	}
	if len(ids) > mostFormer {
		return invalid("instead_of", fmt.Sprintf("has more than %d ids", mostFormer))
	}
	before := uint64(0)
	for i, id := range ids {
		at := fmt.Sprintf("instead_of[%d]", i)
		switch {
		case id <= before:
			return invalid(at, "must be greater than 0 and than the one before")
		case id > s.LastRequest():
			return invalid(at, "is the id of no request of the session before it was resumed")
		}
		before = id
	}
	return nil
}

// insteadLocked makes a request in place of one that was not answered, perhaps at several replicas. It waits in no
// queue until what the earlier one left behind is undone.
func (s *Session) insteadLocked(w *waiter, req request.Acquire) error {
	w.apart = true
	if err := s.waitLocked(w, w.want()); err != nil {
		return err
	}
	w.q = s.b.queueLocked(w.Claim.Name)
	s.EnterOp()
	s.b.goTaking(func() {
		defer s.LeaveOp()
		ahead := s.leaveBehind(w, req)
		w.lock()
		defer w.unlock()
		w.succeeded = w.Claim.Kind == lock.Fair && w.all == nil
		if w.Answered() { // cancelled, or its session has ended
			s.b.undoSucceededLocked(w)
			return
		}
		now := time.Now()
		if w.Wait > 0 && w.Wait != arbiter.Forever {
			w.Wait = max(w.Wait-now.Sub(w.Since), time.Millisecond)
		}
		w.Since = now
		s.b.ordinaryLocked(w)
		if w.Waits() && w.Tells(ahead) { // if the store need not be asked for it, nobody else tells it this
			w.tellQueuedLocked(ahead, true)
		}
		if ahead == 0 { // the name may be free, and nobody tells it so
			w.q.TryNext(&w.Waiter)
			s.b.driveLocked(w.q)
		}
	})
	return nil
}

// undoSucceededLocked undoes what a request that leaves without a grant had succeeded to, its place included. If its
// session may go on elsewhere, that is left to the request that is made there, for as long as a place is left alone.
func (b *Broker) undoSucceededLocked(w *waiter) {
	switch {
	case !w.succeeded || w.Asking():
	case w.sess.KeepsPlaces():
		b.leavePlaceLocked(w)
	default:
		w.succeeded = false
		b.undo(w.Claim.Return())
	}
}

// comesBack says whether a waiter that left may stand in line again elsewhere, where it stood.
func (w *waiter) comesBack() bool {
	return w.Claim.Kind == lock.Fair && !w.Several && !w.Try() && !w.cancelled && w.sess != nil && w.sess.KeepsPlaces()
}

// passOnPlace gives a new owner the place of the first of some fair waiters, and says how many are before it, and
// whether it was done. While the store does not answer it asks again, for as long as the place lasts there and the
// request wants to wait.
func (s *Session) passOnPlace(req request.Acquire, from []lock.Owner, to lock.Owner) (ahead int, done bool) {
	end := time.Now().Add(arbiter.PlaceTime)
	if req.Wait != nil && *req.Wait < arbiter.PlaceTime {
		end = time.Now().Add(*req.Wait)
	}
	for n := 1; ; n++ {
		ahead, err := s.b.store.Succeed(s.b.ctx, req.Name, from, to, arbiter.PlaceTime)
		if err == nil || !lock.Retriable(err) || s.b.ctx.Err() != nil || time.Now().After(end) {
			return ahead, err == nil
		}
		lock.Pause(s.b.ctx, lock.Backoff(n))
	}
}

// leaveBehind passes on the place of a request that was made before, or undoes what that may have taken. ahead is how
// many are before the place, lock.PlaceUnknown if it has none.
func (s *Session) leaveBehind(w *waiter, req request.Acquire) (ahead int) {
	var from []lock.Owner
	for _, former := range req.InsteadOf {
		from = append(from, ownerOf(s.ID(), req.Holder, former))
	}
	if req.Kind == lock.Fair && len(req.More) == 0 {
		if ahead, done := s.passOnPlace(req, from, w.Claim.Owner); done {
			return ahead
		}
	}
	var under sync.WaitGroup
	for _, owner := range from {
		for _, c := range w.claimed() {
			c.Owner = owner
			under.Add(1)
			s.b.store.StartRelease(c.Return(), func(lock.Returned, error) { under.Done() })
		}
	}
	under.Wait()
	return lock.PlaceUnknown
}
