package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// fenceTTL is how long the fence of a free name is remembered after the last operation about the name. It is only
// needed to tell a forced release from a loss of data, and for Look; later fences are greater even without it.
const fenceTTL = lock.LimitLives

// remember is how many names may be known before free ones are forgotten sooner than fenceTTL.
const remember = 100_000

// Store is a lock.Store in memory. The zero value is not usable; New makes one.
type Store struct {
	listeners registry[listener]          // and those who watch
	forced    registry[func(name string)] // under ""
	peers     registry[func(message []byte)]

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	queue   []*entry   // all entries, in the order in which the sweep looks at them
	floor   lock.Fence // no fence above it was forgotten
	lost    lock.Fence // no fence above it was lost
}

var _ lock.Store = (*Store)(nil)

// New makes an empty Store. There is nothing to close.
func New() *Store { return &Store{entries: make(map[string]*entry)} }

// work is one operation. It has Store.mu from enter to leave, happens at one instant, and collects what the listeners
// are told when the mutex is free again.
type work struct {
	*Store
	now    time.Time
	queued []*entry // entries with fair waiters: their heads may change in this operation
	news   []message
	told   bool // the last message tells of a release
	heard  int  // how many listeners heard it
}

// enter begins an operation on this number of names. It locks Store.mu.
func (s *Store) enter(names int) *work {
	s.mu.Lock()
	now := time.Now()
	s.sweepLocked(now, names)
	return &work{Store: s, now: now}
}

// leave ends the operation, and tells the notices: those for watchers under Store.mu, the others after it.
func (w *work) leave() {
	for _, e := range w.queued {
		w.settle(e)
	}
	for _, m := range w.news { // before See can look
		if m.kind == 0 {
			w.tell(m)
		}
	}
	w.mu.Unlock()
	for _, m := range w.news {
		if m.kind != 0 {
			w.heard = w.tell(m)
		}
	}
}

// do runs f as one operation on a name of a kind.
func do[T any](ctx context.Context, s *Store, attempt, name string, kind lock.Kind,
	f func(w *work) (T, error),
) (T, error) {
	var v T
	err := lock.Begin(ctx, kind)
	if err == nil {
		w := s.enter(1)
		v, err = f(w)
		w.leave()
	}
	if err != nil {
		return *new(T), fmt.Errorf("%s %q: %w", attempt, name, err)
	}
	return v, nil
}

// use is do for a name that must not be in use for something else than kind.
func use[T any](ctx context.Context, s *Store, attempt, name string, kind lock.Kind,
	f func(w *work, e *entry) (T, error),
) (T, error) {
	return do(ctx, s, attempt, name, kind, func(w *work) (T, error) {
		e := w.find(name)
		if e.mismatch(kind) {
			return *new(T), lock.ErrKindMismatch
		}
		return f(w, e)
	})
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	go func() {
		ctx := context.Background()
		done(use(ctx, s, "acquire", c.Name, c.Kind, func(w *work, e *entry) (lock.Grant, error) { return w.acquire(e, c) }))
	}()
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	go func() {
		var of *work
		res, err := use(context.Background(), s, "release", r.Name, r.Kind, func(w *work, e *entry) (lock.Returned, error) {
			of = w
			return kinds[r.Kind].release(w, e, r)
		})
		if err == nil && of.told {
			res.Listeners = of.heard
		}
		done(res, err)
	}()
}

// Renew implements lock.Store.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	for i, r := range rs {
		_, err := s.renew(ctx, r)
		done(i, err)
	}
}

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	go func() { done(s.renew(context.Background(), r)) }()
}

func (s *Store) renew(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	return do(ctx, s, "renew", r.Name, r.Kind, func(w *work) (time.Duration, error) { return w.renew(w.find(r.Name), r) })
}

// Shorten implements lock.Store.
func (s *Store) Shorten(ctx context.Context, r lock.Renewal) error {
	_, err := do(ctx, s, "shorten", r.Name, r.Kind, func(w *work) (any, error) {
		return nil, w.shorten(w.find(r.Name), r)
	})
	return err
}

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	return do(ctx, s, "raise the fence of", c.Name, c.Kind, func(w *work) (lock.Fence, error) {
		return w.raise(w.find(c.Name), c)
	})
}

// ForceRelease implements lock.Store.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	held, err := use(ctx, s, "force release", name, kind, func(w *work, e *entry) (bool, error) {
		if kind == lock.Semaphore {
			return w.forcePermits(e), nil
		}
		return w.force(e, kind)
	})
	if held {
		for _, notify := range s.forced.of("") {
			notify(name)
		}
	}
	return held, err
}

// Probe implements lock.Store. The memory of the process is always within reach.
func (s *Store) Probe(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("probe: %w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
	return "memory", nil
}
