package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Item is one of the locks of LockAll.
type Item struct {
	// Name is the lock. No name may come twice.
	Name string
	// Kind is how it is locked. 0 is Semaphore if Permits or Limit is set, else what the options As and Permits say.
	Kind Kind
	// Permits and Limit are for a Semaphore; see the option of this name.
	Permits, Limit uint32
}

// LockAll waits until it has all the locks at once, ctx ends, or the time of the Wait option has passed. While it waits
// for one it holds none, so callers that lock the same names in another order cannot block each other; but it has no
// place in the queue of a Fair lock, and requests for a single name may overtake it.
//
// The options are those of Lock and apply to all the locks. What Lock says of interruptions and of ctx holds here, too.
func (c *Client) LockAll(ctx context.Context, items []Item, opts ...LockOption) (*Locks, error) {
	return c.lockAll(ctx, "lock", items, newRequest("", opts))
}

// TryLockAll takes all the locks if they are free, or none and returns a *HeldError. Otherwise it is like TryLock.
func (c *Client) TryLockAll(ctx context.Context, items []Item, opts ...LockOption) (*Locks, error) {
	return c.lockAll(ctx, "try lock", items, newRequest("", opts, Wait(0)))
}

func (c *Client) lockAll(ctx context.Context, verb string, items []Item, r *request) (*Locks, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("%s: %w", verb, invalid("INVALID_NAME", "there is nothing to lock"))
	}
	r.ask(items)
	all, err := c.lock(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, names(items), err)
	}
	return all[0].set, nil
}

// ask makes it a request for these locks.
func (r *request) ask(items []Item) {
	r.several = true
	a := &r.acquire
	asked := make([]*lockdv1.AcquireItem, len(items))
	for n, i := range items {
		asked[n] = &lockdv1.AcquireItem{Name: i.Name, Kind: lockdv1.LockKind(i.Kind), Permits: i.Permits, Limit: i.Limit}
		switch {
		case i.Kind != 0:
		case i.Permits > 0 || i.Limit > 0:
			asked[n].Kind = lockdv1.LockKind(Semaphore)
		default:
			asked[n].Kind, asked[n].Permits, asked[n].Limit = a.GetKind(), a.GetPermits(), a.GetLimit()
		}
	}
	if first := asked[0]; len(asked) == 1 {
		a.Name, a.Kind, a.Permits, a.Limit = first.GetName(), first.GetKind(), first.GetPermits(), first.GetLimit()
		return
	}
	a.Kind, a.Permits, a.Limit, a.Items = 0, 0, 0, asked
}

// names are the names of some items as an error shows them.
func names(items []Item) string {
	first := quoted(items[0].Name)
	if len(items) == 1 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, len(items)-1)
}

// Locks are locks that were granted together. From then on each lives by itself: it can be lost, and unlocked, without
// the others. All methods may be called at any time from any goroutine.
type Locks struct {
	ending
	all []*Lock
}

// All returns the locks in the order in which they were asked for.
func (ls *Locks) All() []*Lock { return slices.Clone(ls.all) }

func (ls *Locks) until() instant {
	return slices.MinFunc(ls.all, func(a, b *Lock) int { return cmp.Compare(a.until(), b.until()) }).until()
}

func (ls *Locks) check() {
	for _, l := range ls.all {
		l.check()
	}
}

// Unlock releases all locks at the same time, and joins the errors that Lock.Unlock has for each. A failure for one
// does not keep the others held. Locks that were unlocked before are skipped, so Unlock may be repeated.
func (ls *Locks) Unlock(ctx context.Context) error {
	releases, errs := make([]*call, len(ls.all)), make([]error, len(ls.all))
	for i, l := range ls.all {
		release, err := l.beginUnlock()
		releases[i] = release
		if err != nil && !errors.Is(err, ErrUnlocked) {
			errs[i] = l.fail("unlock", err)
		}
	}
	by := ls.session.client.answerBy(ctx)
	for i, release := range releases {
		if release != nil {
			errs[i] = ls.all[i].awaitUnlock(ctx, release, by)
		}
	}
	return errors.Join(errs...)
}
