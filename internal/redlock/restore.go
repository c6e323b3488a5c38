package redlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxRestoring bounds how many holds are being put back at a time. Others are put back at a later renewal.
const maxRestoring = 256

// restore puts a hold back at a member that lacks it, although a majority has it. So the hold survives if members are
// restarted one after the other without their data.
//
// This is safe. A majority has the hold, so nobody else has a majority as long as the lease lasts. If the hold ends
// meanwhile, what was put back is released (lookAgain), or ends with its TTL.
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

// restoreAt does that, and says whether the member has the hold now.
func (s *Store) restoreAt(ctx context.Context, m *member, r lock.Renewal) bool {
	c := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: r.Fence}
	if r.Kind == lock.Read {
		var ready bool
		if c.WriteOwner, ready = s.writeHold(ctx, m, r.Name); !ready {
			return false
		}
	}
	left, _ := s.elsewhere(ctx, m, r) // it may be longer than the renewal asked for
	if c.TTL = s.drifted(left); c.TTL <= 0 {
		return false
	}
	err := s.putBack(ctx, m, c)
	if err == nil || isUnknown(err) {
		s.lookAgain(ctx, m, r)
	}
	return err == nil
}

// writeHold finds the write hold of a name, and puts it back at the member first: if a reader writes as well, a member
// that has only its read hold would refuse the write hold. ready is false if that failed.
func (s *Store) writeHold(ctx context.Context, m *member, name string) (writer lock.Owner, ready bool) {
	seen, err := s.See(ctx, name)
	ready = err == nil
	for _, h := range seen.Holds {
		if kind, owner, _ := strings.Cut(h.ID, " "); !h.Few && kind == lock.Write.String() {
			writer = lock.Owner(owner)
			ready = s.restoreAt(ctx, m, lock.Renewal{Name: name, Kind: lock.Write, Owner: writer, Fence: h.Fence})
		}
	}
	return writer, ready
}

// lookAgain ends a hold that was put back if no majority of the others has it any more. They are asked behind all that
// this replica asked them for the owner before. So a release from here is either seen, or comes to the member behind
// the acquisition. A release of another replica may be on its way: then the hold ends with its TTL. It also does so if
// the others lost the hold with their data, because then it may still be the owner's.
func (s *Store) lookAgain(ctx context.Context, m *member, r lock.Renewal) {
	_, err := s.elsewhere(ctx, m, r)
	if gone, ok := errors.AsType[*lock.GoneError](err); ok && gone.Reason == lock.LostForced {
		s.release(m, lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Owner})
	}
}

func (s *Store) putBack(ctx context.Context, m *member, c lock.Claim) error {
	g, err := lock.Await(ctx, m.StartAcquire, c)
	if held, ok := errors.AsType[*lock.HeldError](err); ok && c.Kind == lock.Read {
		// A writer that waits keeps new readers away, but this reader is not new. The writer will renew its mark.
		if m.Leave(ctx, c.Name, lock.Write, []lock.Owner{held.HeldBy}) == nil {
			g, err = lock.Await(ctx, m.StartAcquire, c)
		}
	}
	if err == nil && g.Fence < c.Fence {
		_, err = m.Raise(ctx, c)
	}
	return err
}

// elsewhere is for how long a majority has a hold without the member but. It does not prolong the hold.
func (s *Store) elsewhere(ctx context.Context, but *member, r lock.Renewal) (left time.Duration, err error) {
	r.TTL = time.Millisecond
	return lock.Await(ctx, func(r lock.Renewal, done func(time.Duration, error)) { s.extendBut(but, r, done) }, r)
}
