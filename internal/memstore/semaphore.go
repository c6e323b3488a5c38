package memstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// semaphore is the permits of a name.
type semaphore struct {
	// available is less than 0 while more permits are out than the limit allows.
	available int64
	// out is when each permit that was given out ends.
	out map[permit]time.Time
	// next is when the next permit ends, or earlier.
	next time.Time
	// expires is when the semaphore is forgotten: LimitLives after the last permit ends, or later.
	expires time.Time
}

// limited is the semaphore of a name, or a new one with this limit if there is none.
func (e *entry) limited(limit uint32) *semaphore {
	if e.permits == nil {
		e.permits = &semaphore{available: int64(limit), out: make(map[permit]time.Time)}
	}
	return e.permits
}

// permit is the i-th permit of an owner, counted from 1.
type permit struct {
	owner lock.Owner
	i     uint32
}

// limit is how many permits there are, 0 if there is no semaphore.
func (p *semaphore) limit() uint32 {
	if p == nil {
		return 0
	}
	return uint32(p.available + int64(len(p.out))) //nolint:gosec // it was given as one
}

// has counts the permits of an owner that are out, from the first to the one with number last, or with last 0 up to the
// first that is missing.
func (p *semaphore) has(o lock.Owner, last uint32) (n uint32) {
	if p == nil {
		return 0
	}
	for i := uint32(1); last == 0 || i <= last; i++ {
		if _, ok := p.out[permit{o, i}]; ok {
			n++
		} else if last == 0 {
			break
		}
	}
	return n
}

// meant is permits, or if that is not known how many the owner has.
func (p *semaphore) meant(o lock.Owner, permits uint32) uint32 {
	if permits == 0 {
		return p.has(o, 0)
	}
	return permits
}

// purge takes back permits that have ended, and tells those who wait.
func (w *work) purge(e *entry) {
	if e.permits == nil || w.now.Before(e.permits.next) {
		return
	}
	n := len(e.permits.out)
	e.permits.next = e.permits.expires
	for id, until := range e.permits.out {
		if !w.now.Before(until) {
			w.takeBack(e, id)
		} else if until.Before(e.permits.next) {
			e.permits.next = until
		}
	}
	if len(e.permits.out) < n {
		w.offer(e)
	}
}

// offer tells those who wait that permits can be had, if they can.
func (w *work) offer(e *entry) {
	if e.permits.available > 0 {
		w.freed(e, lock.Semaphore)
	}
}

// SetLimit implements lock.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	return use(ctx, s, "set the limit of", name, lock.Semaphore, func(w *work, e *entry) (previous uint32, err error) {
		w.purge(e)
		previous = e.permits.limit()
		p := e.limited(limit)
		p.available += int64(limit) - int64(p.limit())
		if previous > 0 && limit > previous {
			w.offer(e)
		}
		if e.fence == 0 { // as over Redis, where it says whose the number is
			w.mint(e, 0)
		}
		later(&p.expires, w.now, lock.LimitLives)
		return previous, nil
	})
}

// RemoveLimit implements lock.Store.
func (s *Store) RemoveLimit(ctx context.Context, name string) (uint32, error) {
	return use(ctx, s, "remove the limit of", name, lock.Semaphore, func(w *work, e *entry) (previous uint32, err error) {
		if e.permits == nil {
			return 0, nil
		}
		w.purge(e)
		if len(e.permits.out) > 0 {
			last := slices.MaxFunc(slices.Collect(maps.Values(e.permits.out)), time.Time.Compare)
			return 0, &lock.HeldError{RetryAfter: last.Sub(w.now)}
		}
		previous, e.permits = e.permits.limit(), nil
		return previous, nil
	})
}

// AdoptLimit implements lock.Store. No other program makes numbers here.
func (s *Store) AdoptLimit(ctx context.Context, name string, limit uint32) error {
	_, err := use(ctx, s, "adopt the limit of", name, lock.Semaphore, func(_ *work, e *entry) (any, error) {
		if kept := e.permits.limit(); kept != limit {
			return nil, &lock.LimitError{Limit: kept}
		}
		return nil, nil
	})
	return err
}

func (w *work) takeBack(e *entry, id permit) {
	delete(e.permits.out, id)
	e.permits.available++
}

// checkPermits allows a claim if as many permits are available as the owner lacks. Nothing is kept of a refused claim,
// not even its limit.
func (w *work) checkPermits(e *entry, c lock.Claim) error {
	w.purge(e)
	kept, available := c.Limit, int64(c.Limit)
	if e.permits != nil {
		kept, available = e.permits.limit(), e.permits.available
	}
	missing := c.Permits - e.permits.has(c.Owner, c.Permits)
	switch {
	case missing == 0 && c.Permits > 0: // repeated, whatever the limit is by now
		return nil
	case kept == 0 && e.permits == nil, c.Limit != 0 && c.Limit != kept:
		return &lock.LimitError{Limit: kept}
	case c.Permits > kept:
		return lock.Invalid("permits", lock.ReasonPermits, fmt.Sprintf("the semaphore has %d", kept))
	case int64(missing) <= available:
		return nil
	}
	held := &lock.HeldError{RetryAfter: lock.NoTTL}
	if len(e.permits.out) > 0 {
		held.RetryAfter = slices.MinFunc(slices.Collect(maps.Values(e.permits.out)), time.Time.Compare).Sub(w.now)
	}
	return held
}

func (w *work) takePermits(e *entry, c lock.Claim) lock.Grant {
	p := e.limited(c.Limit)
	g := lock.Grant{Fence: w.mint(e, 0), TTL: time.Duration(math.MaxInt64)}
	for i := range c.Permits {
		id := permit{c.Owner, i + 1}
		if p.out[id].IsZero() {
			p.available--
		}
		g.TTL = min(g.TTL, w.lease(p, id, c.TTL))
	}
	return g
}

// lease gives a permit out or prolongs it, and returns its remaining time.
func (w *work) lease(p *semaphore, id permit, ttl time.Duration) time.Duration {
	until := p.out[id]
	left := later(&until, w.now, ttl)
	if len(p.out) == 0 || until.Before(p.next) {
		p.next = until
	}
	p.out[id] = until
	later(&p.expires, w.now, left+lock.LimitLives)
	return left
}

func (w *work) releasePermits(e *entry, r lock.Return) (res lock.Returned, err error) {
	if e.permits == nil {
		return res, lock.ErrNotHeld
	}
	w.purge(e)
	n := len(e.permits.out)
	for i := r.Keep + 1; r.Permits == 0 || i <= r.Permits; i++ {
		if id := (permit{r.Owner, i}); !e.permits.out[id].IsZero() {
			w.takeBack(e, id)
		} else if r.Permits == 0 {
			break
		}
	}
	if r.Keep > 0 {
		res.Left = e.permits.has(r.Owner, r.Keep)
	}
	if len(e.permits.out) == n {
		if res.Left == 0 {
			return res, lock.ErrNotHeld
		}
		return res, nil
	}
	if r.Keep == 0 {
		w.say(e, 0, lock.Notice{
			What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: r.Fence, Hold: lock.PermitsOf(r.Owner),
		})
	}
	w.offer(e)
	w.told = true
	return res, nil
}

// renewPermits is verbs.renew for Semaphore: all permits of the hold must be there.
func (w *work) renewPermits(e *entry, r lock.Renewal) (left time.Duration, there bool) {
	if e.permits == nil {
		return 0, false
	}
	last := e.permits.meant(r.Owner, r.Permits)
	for i := range last {
		until := e.permits.out[permit{r.Owner, i + 1}]
		if !w.now.Before(until) {
			return 0, false
		}
		if i == 0 || until.Sub(w.now) < left {
			left = until.Sub(w.now)
		}
	}
	if last == 0 {
		return 0, false
	}
	if r.TTL > 0 {
		for i := range last {
			w.lease(e.permits, permit{r.Owner, i + 1}, r.TTL)
		}
	}
	return max(left, r.TTL), true
}

func (w *work) forcePermits(e *entry) (held bool) {
	w.purge(e)
	if e.permits == nil || len(e.permits.out) == 0 {
		return false
	}
	e.permits.available = int64(e.permits.limit())
	clear(e.permits.out)
	w.ended(e, lock.EndForced, 0)
	w.offer(e)
	return true
}
