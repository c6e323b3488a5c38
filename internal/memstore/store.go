package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// defaultFenceTTL is how long the fence of a free name is remembered after its last grant. It is only needed to tell
// a forced release from a loss of data, and to show it; later fences are greater without it.
const defaultFenceTTL = 10 * time.Minute

// defaultRemember is how many names may be known before those that are free are forgotten sooner than that.
const defaultRemember = 100_000

// Store is a lock.Store in memory. The zero value is not usable; New makes one.
type Store struct {
	fenceTTL time.Duration
	remember int
	ears     ears
	peers    peers

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	records map[string]record // of sessions
	hand    *entry            // where the sweep is in the ring of entries; nil if there are none
	floor   lock.Fence        // no fence above it was forgotten
	lost    lock.Fence        // no fence above it was lost
}

var _ lock.Store = (*Store)(nil)

// New makes an empty Store. There is nothing to close.
func New() *Store {
	return &Store{
		fenceTTL: defaultFenceTTL, remember: defaultRemember, entries: make(map[string]*entry),
		records: make(map[string]record),
	}
}

// begin says whether an attempt may begin: not with a cancelled ctx, and only for the kinds there are.
func begin(ctx context.Context, kind lock.Kind) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
	if kind < lock.Exclusive || kind > lock.Semaphore {
		return fmt.Errorf("kind %v: %w", kind, lock.ErrUnsupported)
	}
	return nil
}

// work is one operation. It has Store.mu from enter to leave, happens at one instant, and collects what the listeners
// are told when the mutex is free again.
type work struct {
	*Store
	now  time.Time
	news []message
}

// enter begins an operation on so many names.
func (s *Store) enter(names int) *work {
	s.mu.Lock()
	now := time.Now()
	s.sweepLocked(now, names)
	return &work{Store: s, now: now}
}

// leave ends the operation and says how many listeners heard the last message.
func (w *work) leave() (heard int) {
	for _, m := range w.news { // before See can look
		if m.on == toWatchers {
			w.ears.tell(m)
		}
	}
	w.mu.Unlock()
	for _, m := range w.news {
		if m.on != toWatchers {
			heard = w.ears.tell(m)
		}
	}
	return heard
}

// peek returns the entry of a name; if there is none, an empty one that is not kept.
func (w *work) peek(name string) *entry {
	e := w.entries[name]
	if e == nil {
		return &entry{name: name}
	}
	e.refresh(w.now)
	return e
}

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	err := begin(ctx, c.Kind)
	if err == nil {
		w := s.enter(1)
		var g lock.Grant
		g, err = w.acquire(c)
		w.leave()
		if err == nil {
			return g, nil
		}
	}
	return lock.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, err)
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	go func() { done(s.Acquire(context.Background(), c)) }()
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	go func() { done(s.Release(context.Background(), r)) }()
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	err := begin(ctx, r.Kind)
	if err == nil {
		w := s.enter(1)
		var res lock.Returned
		var freed bool
		res, freed, err = w.release(r)
		if heard := w.leave(); freed {
			res.Listeners = heard
		}
		if err == nil {
			return res, nil
		}
	}
	return lock.Returned{}, fmt.Errorf("release %q: %w", r.Name, err)
}

// release says as well whether the last message tells of it.
func (w *work) release(r lock.Return) (res lock.Returned, told bool, err error) {
	e := w.peek(r.Name)
	if e.mismatch(r.Kind) {
		return res, false, lock.ErrKindMismatch
	}
	switch r.Kind {
	case lock.Read:
		return w.releaseRead(e, r)
	case lock.Write:
		return w.releaseWrite(e, r)
	case lock.Semaphore:
		return w.releasePermits(e, r)
	default:
		return w.releasePlain(e, r)
	}
}

// Renew implements lock.Store.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	for i, r := range rs {
		_, err := s.prolong(ctx, r)
		done(i, err)
	}
}

// Extend implements lock.Store.
func (s *Store) Extend(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	r.Sole = false
	return s.prolong(ctx, r)
}

func (s *Store) prolong(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	err = begin(ctx, r.Kind)
	if err == nil {
		w := s.enter(1)
		left, err = w.renew(r)
		w.leave()
	}
	if err != nil {
		return 0, fmt.Errorf("renew %q: %w", r.Name, err)
	}
	return left, nil
}

func (w *work) renew(r lock.Renewal) (left time.Duration, err error) {
	e := w.peek(r.Name)
	there := false
	switch r.Kind {
	case lock.Read:
		left, there = w.renewRead(e, r)
	case lock.Write:
		if there = e.shared.writtenBy(r.Owner) && (r.Fence == 0 || r.Fence == e.shared.fence); there {
			left = later(&e.shared.expires, w.now, r.TTL)
		}
	case lock.Semaphore:
		left, there = w.renewPermits(e, r)
	default:
		if there = e.owner == r.Owner && (r.Fence == 0 || r.Fence == e.fence || r.Sole && r.TTL > 0); there {
			left = later(&e.expires, w.now, r.TTL)
		}
	}
	if !there {
		return 0, w.goneLocked(e, r)
	}
	w.changed(e)
	if r.TTL > 0 {
		e.fenceUntil = w.now.Add(w.fenceTTL)
	}
	return left, nil
}

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	go func() { done(s.Extend(context.Background(), r)) }()
}

// ForceRelease implements lock.Store.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	err := begin(ctx, kind)
	if err == nil {
		w := s.enter(1)
		e := w.peek(name)
		held := false
		if e.mismatch(kind) {
			err = lock.ErrKindMismatch
		} else {
			held, err = w.force(e, kind)
		}
		w.leave()
		if held {
			s.ears.forced(name)
		}
		if err == nil {
			return held, nil
		}
	}
	return false, fmt.Errorf("force release %q: %w", name, err)
}

func (w *work) force(e *entry, kind lock.Kind) (held bool, err error) {
	switch kind {
	case lock.Read, lock.Write:
		return w.forceShared(e, kind)
	case lock.Semaphore:
		return w.forcePermits(e), nil
	default:
		return w.forcePlain(e, kind)
	}
}

// Probe implements lock.Store. The memory of the process is always within reach.
func (s *Store) Probe(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("probe: %w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
	return "memory", nil
}
