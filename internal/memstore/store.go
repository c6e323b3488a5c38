package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// defaultFenceTTL is how long the fence of a free name is remembered after its last grant. It is only needed to tell
// a forced release from a loss of data, and to show it; later fences are greater without it.
const defaultFenceTTL = 10 * time.Minute

// defaultRemember is how many names may be known before those that are free are forgotten sooner than that.
const defaultRemember = 100_000

// Store is a broker.Store in memory. The zero value is not usable; New makes one.
type Store struct {
	fenceTTL time.Duration
	remember int
	ears     ears

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	hand    *entry       // where the sweep is in the ring of entries; nil if there are none
	floor   broker.Fence // no fence above it was forgotten
	lost    broker.Fence // no fence above it was lost
}

var _ broker.Store = (*Store)(nil)

// New makes an empty Store. There is nothing to close.
func New() *Store {
	return &Store{fenceTTL: defaultFenceTTL, remember: defaultRemember, entries: make(map[string]*entry)}
}

// begin says whether an attempt may begin: not with a cancelled ctx, and only for the kinds there are.
func begin(ctx context.Context, kind broker.Kind) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, context.Cause(ctx))
	}
	if kind != broker.Exclusive {
		return fmt.Errorf("kind %v: %w", kind, broker.ErrUnsupported)
	}
	return nil
}

// Acquire implements broker.Store.
func (s *Store) Acquire(ctx context.Context, c broker.Claim) (broker.Grant, error) {
	if err := begin(ctx, c.Kind); err != nil {
		return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.entryLocked(c.Name, now)
	switch {
	case e.occupied:
		return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, broker.ErrKindMismatch)
	case e.heldBy(c.Owner, now):
		if c.Count > 1 && c.Fence != e.fence {
			return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, broker.ErrStale)
		}
		e.count = c.Count
		e.fenceUntil = now.Add(s.fenceTTL)
		return broker.Grant{Fence: e.fence, TTL: e.prolong(now, c.TTL)}, nil
	case c.Count > 1:
		return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, broker.ErrNotHeld)
	case e.held(now):
		held := &broker.HeldError{RetryAfter: e.expires.Sub(now), HeldBy: e.owner}
		return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, held)
	}
	e.hold(c.Owner, c.Count, now.Add(c.TTL))
	return broker.Grant{Fence: s.mintLocked(e, now), TTL: c.TTL}, nil
}

// StartAcquire implements broker.Store.
func (s *Store) StartAcquire(c broker.Claim, done func(broker.Grant, error)) {
	go func() { done(s.Acquire(context.Background(), c)) }()
}

// StartRelease implements broker.Store.
func (s *Store) StartRelease(r broker.Return, done func(broker.Returned, error)) {
	go func() { done(s.Release(context.Background(), r)) }()
}

// Release implements broker.Store.
func (s *Store) Release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	if err := begin(ctx, r.Kind); err != nil {
		return broker.Returned{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	res, freed, err := s.release(r)
	if err != nil {
		return broker.Returned{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	if freed {
		res.Listeners = s.ears.released(r.Name)
	}
	return res, nil
}

// release does what can be done under the mutex, and says whether the name is free now.
func (s *Store) release(r broker.Return) (res broker.Returned, freed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweepLocked(now)
	e := s.entries[r.Name]
	switch {
	case e != nil && e.occupied:
		return res, false, broker.ErrKindMismatch
	case !e.heldBy(r.Owner, now):
		if r.Remaining == 0 && r.Next != nil && e.heldBy(r.Next.Owner, now) {
			return broker.Returned{HandedOver: e.fence}, false, nil // the hand-over was done before
		}
		return res, false, broker.ErrNotHeld
	case r.Fence != 0 && r.Fence != e.fence:
		return res, false, broker.ErrStale
	case r.Remaining > 0:
		e.count = r.Remaining
		return res, false, nil
	case r.Next != nil:
		e.hold(r.Next.Owner, 1, now.Add(r.Next.TTL))
		return broker.Returned{HandedOver: s.mintLocked(e, now)}, false, nil
	}
	e.free()
	return res, true, nil
}

// Renew implements broker.Store.
func (s *Store) Renew(ctx context.Context, rs []broker.Renewal, done func(i int, err error)) {
	for i, r := range rs {
		err := begin(ctx, r.Kind)
		if err == nil {
			err = s.renew(r)
		}
		if err != nil {
			err = fmt.Errorf("renew %q: %w", r.Name, err)
		}
		done(i, err)
	}
}

func (s *Store) renew(r broker.Renewal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweepLocked(now)
	e := s.entries[r.Name]
	if !e.heldBy(r.Owner, now) || r.Fence != 0 && r.Fence != e.fence {
		return s.goneLocked(e, r.Fence)
	}
	if r.TTL > 0 {
		e.prolong(now, r.TTL)
		e.fenceUntil = now.Add(s.fenceTTL)
	}
	return nil
}

// ForceRelease implements broker.Store.
func (s *Store) ForceRelease(ctx context.Context, name string, kind broker.Kind) (bool, error) {
	if err := begin(ctx, kind); err != nil {
		return false, fmt.Errorf("force release %q: %w", name, err)
	}
	s.mu.Lock()
	now := time.Now()
	s.sweepLocked(now)
	e := s.entries[name]
	if e != nil && e.occupied {
		s.mu.Unlock()
		return false, fmt.Errorf("force release %q: %w", name, broker.ErrKindMismatch)
	}
	held := e.held(now)
	if held {
		e.free()
	}
	s.mu.Unlock()
	if held {
		s.ears.released(name)
		s.ears.forced(name)
	}
	return held, nil
}

// Probe implements broker.Store. The memory of the process is always within reach.
func (s *Store) Probe(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("probe: %w: %w", broker.ErrUnavailable, context.Cause(ctx))
	}
	return "memory", nil
}
