package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(left time.Duration, err error)) {
	if err := decides(context.Background(), r.Kind); err != nil {
		go done(0, about("renew", r.Name, err))
		return
	}
	s.extendBut(nil, r, done)
}

// extendBut extends a hold at all members but one.
func (s *Store) extendBut(but *member, r lock.Renewal, done func(left time.Duration, err error)) {
	sent := r
	sent.TTL = s.drifted(r.TTL)
	b := open(s, func(b *ballot[time.Duration], last bool) (time.Duration, bool, error) {
		if but != nil && !last { // wait for all: they tell why it is gone
			return 0, false, nil
		}
		left := s.lastingLocked(b.votes, r)
		if len(left) >= s.quorum {
			return max(left[len(left)-s.quorum], r.TTL), true, nil
		}
		err := b.againstLocked(last)
		return 0, err != nil, err
	}, func(left time.Duration, err error) { done(left, about("renew", r.Name, err)) })
	for _, m := range s.members {
		if m == but {
			b.answer(m, 0, lock.ErrUnavailable) // it is not asked
			continue
		}
		m.StartExtend(sent, func(left time.Duration, err error) { b.answer(m, left, err) })
	}
}

// lastingLocked is for how long each member has a hold that it prolonged, sorted. The ballot's mutex is held.
//
// A caller that knows the fence was told that it has the hold. A caller that does not may have asked in vain, and what
// a quarantined member has may be left from that attempt: so that does not count.
func (s *Store) lastingLocked(votes []vote[time.Duration], r lock.Renewal) []time.Duration {
	left := make([]time.Duration, 0, len(votes))
	for _, v := range votes {
		if v.yes() && (r.Fence != 0 || !s.quarantined(v.from)) {
			left = append(left, trusted(v.v))
		}
	}
	slices.Sort(left)
	return left
}

// Shorten implements lock.Store. It waits for all members, because none of them may do it later: the hold may be
// prolonged meanwhile, and would end too early.
func (s *Store) Shorten(ctx context.Context, r lock.Renewal) error {
	r.TTL = s.drifted(r.TTL)
	return s.ask(ctx, "shorten", r.Name, r.Kind, true,
		func(ctx context.Context, m *member) error { return m.Shorten(ctx, r) })
}

// ForceRelease implements lock.Store. held is true if any member had the name: a hold that only a minority has, or only
// a minority of those that answer, is freed as well. It waits for all members: one that did it later might take the
// name from somebody else.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	held, err = question[bool]{
		what: "force release", name: name, kind: kind, patient: true,
		ask: func(ctx context.Context, m *member) (bool, error) { return m.ForceRelease(ctx, name, kind) },
		verdict: func(b *ballot[bool], last bool) (bool, bool, error) {
			_, over, err := oneWord(b, last)
			return slices.ContainsFunc(b.votes, func(v vote[bool]) bool { return v.err == nil && v.v }), over, err
		},
	}.put(ctx, s)
	s.forced.saw(name)
	return held, err
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	owners = slices.Clone(owners)
	return s.ask(ctx, "leave", name, kind, false,
		func(ctx context.Context, m *member) error { return m.Leave(ctx, name, kind, owners) })
}

// Enlist implements lock.Store: there are no fair waiters.
func (s *Store) Enlist(ctx context.Context, _ string, _ []lock.Owner, _ time.Duration) ([]int, error) {
	return nil, decides(ctx, lock.Fair)
}

// Succeed implements lock.Store: there are no fair waiters.
func (s *Store) Succeed(ctx context.Context, _ string, _ []lock.Owner, _ lock.Owner, _ time.Duration) (int, error) {
	return lock.PlaceUnknown, decides(ctx, lock.Fair)
}

// Queue implements lock.Store: nobody waits in order.
func (s *Store) Queue(ctx context.Context, _ string, _ int) ([]lock.Owner, error) {
	return nil, nil
}

// ListenTurn implements lock.Store: nobody has a turn.
func (s *Store) ListenTurn(string, lock.Owner, func(lock.Notice)) (stop func()) { return func() {} }

// SetLimit implements lock.Store: there are no semaphores.
func (s *Store) SetLimit(ctx context.Context, name string, _ uint32) (previous uint32, err error) {
	return 0, fmt.Errorf("set the limit of %q: %w", name, decides(ctx, lock.Semaphore))
}

// RemoveLimit implements lock.Store: there are no semaphores.
func (s *Store) RemoveLimit(ctx context.Context, name string) (previous uint32, err error) {
	return 0, fmt.Errorf("remove the limit of %q: %w", name, decides(ctx, lock.Semaphore))
}

// AdoptLimit implements lock.Store: there are no semaphores.
func (s *Store) AdoptLimit(ctx context.Context, name string, _ uint32) error {
	return fmt.Errorf("adopt the limit of %q: %w", name, decides(ctx, lock.Semaphore))
}
