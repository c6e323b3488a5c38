package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// mostCalls is how often a release is made for its caller.
	mostCalls = 3
	// patience is for how long nothing is released for a successor that may have the name and is about to ask for it.
	// It would lose its place among fair waiters.
	patience = 6 * time.Second
)

// StartRelease implements lock.Store. For a successor it counts as an acquisition.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	u := s.newPending(r, s.cfg.LongestLease)
	u.tell, u.calling = done, true
	if r.Next != nil {
		u.off = s.putOff([]lock.Claim{{Name: r.Name, Owner: r.Next.Owner}})
	}
	if r.Owner.Repeats() {
		s.add(u, 0)
	}
	s.call(u)
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	err := s.Store.Leave(ctx, name, kind, owners)
	s.hasten(name, owners)
	return err
}

func (s *Store) call(u *pendingRelease) { s.Store.StartRelease(u.r, u.answer) }

// answered is told what became of a call for a pending release. Only the first one has a successor, which asks for
// itself later.
func (s *Store) answered(u *pendingRelease, res lock.Returned, err error) {
	if u.number == 0 && u.calls == 0 && err != nil && lock.Retriable(err) && !u.owner.Repeats() {
		s.add(u, 0)
	}
	if u.r.Next != nil {
		res, err = s.answeredOver(u, res, err)
	}
	if u.number == 0 { // it is not pending
		tell := u.tell
		s.unused.Put(u)
		tell(res, err)
		return
	}
	s.mu.Lock()
	u.r.Next = nil
	res, err = u.meaning(res, err)
	tell := u.tell
	if tell == nil { // the loop made it
		s.underWay--
	}
	again, late := s.concludeLocked(u, err)
	s.mu.Unlock()
	if late {
		s.drop(u)
	}
	if again {
		s.call(u)
		return
	}
	if tell != nil {
		tell(res, err)
	}
	s.work()
}

// answeredOver is told what became of a call that may have handed the name over, and says what that means. What a
// successor that repeats its requests may have stays.
func (s *Store) answeredOver(u *pendingRelease, res lock.Returned, err error) (lock.Returned, error) {
	next := lock.Return{Name: u.name, Kind: u.r.Kind, Owner: u.r.Next.Owner, Tenant: u.r.Tenant}
	switch few := errors.Is(err, lock.ErrNotReplicated); { // it was handed over, and the successor hears nothing of that
	case few && s.cfg.Member: // the caller knows whether the successor is to have it
		err = fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	case few && next.Owner.Repeats():
		res, err = lock.Returned{Assumed: true}, nil
	case few: // the name is free once it is released
		told := u.tell
		u.tell = func(lock.Returned, error) {
			s.StartRelease(next, func(res lock.Returned, _ error) { told(res, nil) })
		}
		err = nil
	case errors.Is(err, lock.ErrOutcomeUnknown) && !s.cfg.Member && !next.Owner.Repeats():
		// The successor may ask for it.
		s.want(next, u.r.Next.TTL, patience)
	}
	s.resume(u.off, res.HandedOver != 0)
	return res, err
}

// meaning is what an outcome means after the calls that were made before. A hold that is not there after an unknown
// outcome was ended by that call; if some is to be kept, it was not.
func (u *pendingRelease) meaning(res lock.Returned, err error) (lock.Returned, error) {
	switch {
	case err == nil || !u.unknown:
	case errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrOver) && u.r.Keep == 0:
		return lock.Returned{Assumed: true}, nil
	case lock.Retriable(err) && !errors.Is(err, lock.ErrOutcomeUnknown):
		err = fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	}
	return res, err
}

// concludeLocked notes what a call means, and says whether the next one is to be made at once for who waits, or it is
// too late for one. A pending release that has no place any more is over: the owner has asked for the name again, or it
// continues in another one.
func (s *Store) concludeLocked(u *pendingRelease, err error) (again, late bool) {
	mine := s.all[u.key] == u
	u.calls++
	u.unknown = errors.Is(err, lock.ErrOutcomeUnknown)
	again = mine && u.unknown && u.tell != nil && u.asking == 0 && u.calls < mostCalls
	if u.calling = again; again {
		return true, false
	}
	u.tell = nil
	if !mine {
		return false, false
	}
	switch now := time.Now(); {
	case errors.Is(err, lock.ErrStale) && len(u.others) > 0:
		last := len(u.others) - 1
		u.r.Fence, u.others = u.others[last], u.others[:last]
		u.calls, u.at = 0, now
		s.planLocked(u)
	case err == nil || !lock.Retriable(err):
		s.removeLocked(u)
	case now.After(u.end):
		s.removeLocked(u)
		return false, true
	default:
		u.at = now.Add(lock.Backoff(u.calls))
		s.planLocked(u)
	}
	return false, false
}
