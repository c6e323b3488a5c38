package session

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Identity is who a client is, where there is a clients file. What it may do changes with the file.
type Identity interface {
	// Client is its name in the file.
	Client() string
	// MayLock and MayLook are nil if it may do so with a name. Else the error is an ErrForbidden.
	MayLock(name string) error
	MayLook(name string) error
	// Still is nil while the client is still who it was. Else the error is an ErrUnauthenticated.
	Still() error
	// Expires is when its credentials do, as they say themselves; zero if never.
	Expires() time.Time
	// Until is when they count no more. That may be a little later, because clocks differ.
	Until() time.Time
	// Told notes what one of its sessions is told, also if the client does not read any more. It does not block.
	Told(session string, e Event)
}

// ForbiddenError is ErrForbidden with the right that is missing.
type ForbiddenError struct {
	Client string // in the clients file
	Right  string // "lock", "look", or what operators do: "force", "limit", "drain", "examine"
	Name   string // of the lock; empty if it is about none
	Detail string // for people
}

func (e *ForbiddenError) Error() string { return e.Detail }
func (e *ForbiddenError) Unwrap() error { return ErrForbidden }

// UnauthenticatedError is ErrUnauthenticated with the reason, which is part of the API.
type UnauthenticatedError struct{ Reason, Detail string }

func (e *UnauthenticatedError) Error() string { return e.Detail }
func (e *UnauthenticatedError) Unwrap() error { return ErrUnauthenticated }

// Share is whose share of the store its calls use: that of its client, or if nobody knows who that is, its own.
func (s *Session) Share() string {
	if s.opening.Identity == nil {
		return s.id
	}
	return string(s.Client().Tenant)
}

// lead is how long before its credentials expire a client is asked to come with new ones: a tenth of what is left.
func lead(left time.Duration) time.Duration { return min(left/10, mostLead) }

const (
	mostLead = 5 * time.Minute
	// leadSpread is the part of the lead over which the askings are spread: all sessions may have the same certificate,
	// and would move at the same moment.
	leadSpread = 4
)

// expireLocked has the client asked for new credentials before those it has expire. When they do the session ends.
func (r *Registry) expireLocked(s *Session) {
	if s.opening.Identity == nil || s.opening.Identity.Until().IsZero() {
		return
	}
	until, left := s.opening.Identity.Until(), time.Until(s.opening.Identity.Expires())
	if left <= 0 { // it was asked, and came with the old ones
		left = time.Until(until)
	}
	early := lead(left)
	early -= rand.N(early/leadSpread + 1)
	s.expiring = time.AfterFunc(left-early, func() {
		s.Tell(Draining{Within: early / 4 * 3})
		r.expireAt(s, until)
	})
}

// expireAt ends a session when its credentials expire. Clocks may be set, or run slower for a while, so it looks again
// until they have expired.
func (r *Registry) expireAt(s *Session, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.streaming {
		s.expiring = time.AfterFunc(max(time.Until(until), leastLook), func() {
			s.review()
			r.expireAt(s, until)
		})
	}
}

// leastLook is the shortest time until credentials are looked at again.
const leastLook = 10 * time.Millisecond

// review ends a session whose client is not known any more. Otherwise it ends requests for names that the client may
// not lock any more, and watches of names that it may not look at.
func (s *Session) review() {
	who := s.opening.Identity
	if who == nil {
		return
	}
	if err := who.Still(); err != nil {
		s.End(err)
		return
	}
	for _, w := range s.Waits() {
		w.Review(who)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.watched {
		if err := who.MayLook(name); err != nil && !s.ended {
			s.unwatchLocked(name)
			s.tellLocked(Unwatched{Name: name, Err: err})
		}
	}
}

// forbidden are those of its leases whose names its client may lock no more.
func (s *Session) forbidden() []Lease {
	who := s.opening.Identity
	if who == nil {
		return nil
	}
	return slices.DeleteFunc(s.Leases(), func(l Lease) bool { return who.MayLock(l.Hold().Name) == nil })
}

// Review ends sessions whose clients are not known any more, and requests and watches to which their clients have no
// right any more. If holds is set such holds end, too: they are lost.
func (r *Registry) Review(holds bool) {
	for _, s := range r.All() {
		s.Review(holds)
	}
}

// Review does so for one session.
func (s *Session) Review(holds bool) {
	s.review()
	if !holds {
		return
	}
	lost := slices.DeleteFunc(s.forbidden(), func(l Lease) bool { return !l.Forbid() })
	if len(lost) > 0 {
		s.of.goes(func() { s.of.free(lost) })
	}
}

// free frees the names of lost leases, few at a time: a call that is not answered in time might never free its name.
func (r *Registry) free(lost []Lease) {
	for _, l := range lost {
		if r.freeing.Enter(r.ctx) != nil {
			return
		}
		l.Free(r.freeing.Leave)
	}
}

// Identity is who its client is; nil if everybody may do everything.
func (s *Session) Identity() Identity { return s.opening.Identity }
