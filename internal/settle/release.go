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

// release is the first call of a release while it is under way.
type release struct {
	s      *Store
	r      lock.Return
	done   func(lock.Returned, error)
	u      *row                       // of an owner that repeats
	off    []*row                     // of the successor, that it put off
	answer func(lock.Returned, error) // its method answered
}

// Release implements lock.Store. What was begun goes on when ctx ends.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if ctx.Err() != nil {
		return s.Store.Release(ctx, r) // which refuses it
	}
	type outcome struct {
		res lock.Returned
		err error
	}
	told := make(chan outcome, 1)
	s.StartRelease(r, func(res lock.Returned, err error) { told <- outcome{res, err} })
	select {
	case o := <-told:
		return o.res, o.err
	case <-ctx.Done():
		s.wantSuccessor(&r)
		return lock.Returned{}, fmt.Errorf("release %q: %w: %w", r.Name, lock.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

// StartRelease implements lock.Store. For a successor it is an acquisition.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	p := s.releases.Get().(*release)
	p.r, p.done = r, done
	if r.Next != nil {
		p.off = s.putOff(lock.Claim{Name: r.Name, Owner: r.Next.Owner})
	}
	if r.Owner.Repeats() {
		p.u = s.begin(r, done)
	}
	s.Store.StartRelease(r, p.answer)
}

// answered is told what became of the first call.
func (p *release) answered(res lock.Returned, err error) {
	s, r, done, u, off := p.s, p.r, p.done, p.u, p.off
	p.r, p.done, p.u, p.off = lock.Return{}, nil, nil, nil
	s.releases.Put(p)
	if u == nil && err != nil && lock.Retriable(err) {
		u = s.begin(r, done)
	}
	if u == nil {
		s.resume(off, res.HandedOver != 0)
		done(res, err)
		return
	}
	s.answered(u, res, err)
	s.resume(off, res.HandedOver != 0)
}

// begin adds a row whose first calls are made for somebody.
func (s *Store) begin(r lock.Return, tell func(lock.Returned, error)) *row {
	u := newRow(r, 0)
	u.tell, u.calling = tell, true
	s.add(u)
	return u
}

func (s *Store) call(u *row) {
	s.Store.StartRelease(u.r, func(res lock.Returned, err error) { s.answered(u, res, err) })
}

// answered is told what became of a call for a row. Only the first one has a successor, which asks for itself later.
func (s *Store) answered(u *row, res lock.Returned, err error) {
	r := u.r
	few := errors.Is(err, lock.ErrNotReplicated) // it was handed over, and the successor hears nothing of that
	switch {
	case r.Next == nil:
	case few && s.cfg.Member: // the caller knows whether the successor is to have it
		err = fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	case few:
		s.freeInVain(u, r)
		return
	case errors.Is(err, lock.ErrOutcomeUnknown):
		s.wantSuccessor(&r)
	}
	s.mu.Lock()
	u.r.Next = nil
	res, err = u.meaning(res, err)
	tell := u.tell
	again := s.concludeLocked(u, err)
	s.mu.Unlock()
	switch {
	case again:
		s.call(u)
	case tell != nil:
		tell(res, err)
	}
	s.work()
}

// meaning is what an outcome means after the calls that were made before. A hold that is not there after an unknown
// outcome was ended by that call; if some is to be kept, it was not.
func (u *row) meaning(res lock.Returned, err error) (lock.Returned, error) {
	switch {
	case err == nil || !u.unknown:
	case errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrOver) && u.r.Keep == 0:
		return lock.Returned{Assumed: true}, nil
	case lock.Retriable(err) && !errors.Is(err, lock.ErrOutcomeUnknown):
		err = fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	}
	return res, err
}

// concludeLocked notes what a call means, and says whether the next one is to be made at once for who waits. A row that
// has no place any more is over: the owner has asked for the name again, or it continues in another one.
func (s *Store) concludeLocked(u *row, err error) (again bool) {
	mine := s.all[u.key] == u
	u.calls++
	u.unknown = errors.Is(err, lock.ErrOutcomeUnknown)
	again = mine && u.unknown && u.tell != nil && u.asking == 0 && u.calls < mostCalls
	if u.calling = again; again {
		return true
	}
	u.tell = nil
	switch now := time.Now(); {
	case !mine:
	case err == nil || !lock.Retriable(err):
		s.removeLocked(u)
	case now.After(u.end):
		s.removeLocked(u)
		s.dropLocked(u)
	default:
		u.at = now.Add(lock.Backoff(u.calls))
		s.planLocked(u)
	}
	return false
}

// wantSuccessor has what a successor may have been given released, unless it asks for the name.
func (s *Store) wantSuccessor(r *lock.Return) {
	if r.Next != nil && !s.cfg.Member {
		s.want(successorsOf(r), r.Next.TTL, patience)
	}
}

func successorsOf(r *lock.Return) lock.Return {
	return lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Tenant: r.Tenant}
}

// freeInVain is the end of a row whose name was handed over, which is not told. It is free when that is released.
func (s *Store) freeInVain(u *row, r lock.Return) {
	s.mu.Lock()
	tell := u.tell
	u.tell = nil
	if s.all[u.key] == u {
		s.removeLocked(u)
	}
	s.mu.Unlock()
	s.StartRelease(successorsOf(&r), func(res lock.Returned, _ error) { tell(res, nil) })
}
