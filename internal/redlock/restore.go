package redlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxRestoring bounds how many holds are being put back. The others are when they are renewed again.
const maxRestoring = 256

// restore puts a hold back at a member that has not got it, although a majority has. So masters that are restarted one
// after the other without their data do not lose it.
//
// It is safe. A majority has the hold, so nobody else has a majority as long as its lease lasts, and this adds a member
// to its own. If the hold is released meanwhile, the member has something that nobody holds: it is less than a
// majority. Who releases it looks for that (restores), and it ends with its TTL at last.
func (s *Store) restore(m *member, r lock.Renewal) {
	if r.Fence == 0 || s.closed.Load() || s.restoring.Load() >= maxRestoring {
		return
	}
	s.restoring.Add(1)
	s.run(context.Background(), func(ctx context.Context) {
		defer s.restoring.Add(-1)
		if s.restoreAt(ctx, m, r) {
			s.metrics.restored.Inc()
		}
	})
}

// restoreAt says whether the member has the hold now.
func (s *Store) restoreAt(ctx context.Context, m *member, r lock.Renewal) bool {
	s.isRestored(m, r)
	c := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: r.Fence}
	if r.Kind == lock.Read {
		var ready bool
		if c.WriteOwner, ready = s.writeHold(ctx, m, r.Name); !ready {
			return false
		}
	}
	left, _ := s.extended(ctx, r) // which may be longer than the renewal asked for
	if c.TTL = s.drifted(left); c.TTL <= 0 || s.putBack(ctx, m, c) != nil {
		return false
	}
	s.lookAgain(ctx, m, r, c.TTL)
	return true
}

// writeHold is the owner of the write hold of a reader that writes as well. A member that has only the read hold would
// not take that, so it is put back before; ready is false if it is not there.
func (s *Store) writeHold(ctx context.Context, m *member, name string) (writer lock.Owner, ready bool) {
	sight, err := s.See(ctx, name)
	ready = err == nil
	for _, h := range sight.Holds {
		if kind, owner, _ := strings.Cut(h.ID, " "); !h.Few && kind == lock.Write.String() {
			writer = lock.Owner(owner)
			ready = s.restoreAt(ctx, m, lock.Renewal{Name: name, Kind: lock.Write, Owner: writer, Fence: h.Fence})
		}
	}
	return writer, ready
}

// lookAgain ends a hold that was put back if a majority has not got it any more: it was freed by force meanwhile, or
// released by another replica.
func (s *Store) lookAgain(ctx context.Context, m *member, r lock.Renewal, ttl time.Duration) {
	if r.Owner.Repeats() { // it may have another one there
		return
	}
	if _, err := s.extended(ctx, r); errors.Is(err, lock.ErrNotHeld) {
		back := lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Owner}
		s.undo(&leftover{m: m, r: back, end: time.Now().Add(ttl), again: sure})
	}
}

func (s *Store) putBack(ctx context.Context, m *member, c lock.Claim) error {
	g, err := m.Acquire(ctx, c)
	if held, ok := errors.AsType[*lock.HeldError](err); ok && c.Kind == lock.Read {
		// A writer that waits keeps new readers away, and this is none. The writer says again that it waits.
		if m.Leave(ctx, c.Name, lock.Write, []lock.Owner{held.HeldBy}) == nil {
			g, err = m.Acquire(ctx, c)
		}
	}
	switch {
	case err == nil && g.Fence < c.Fence:
		_, err = m.Raise(ctx, c)
	case err == nil && g.Fence > c.Fence:
		s.isOdd(m, c, g.Fence)
	}
	return err
}

// extended is for how long a majority has a hold. It changes nothing about it.
func (s *Store) extended(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	r.TTL = time.Millisecond
	return s.Extend(ctx, r)
}
