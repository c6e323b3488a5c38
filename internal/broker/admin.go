package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID             string
	Client         Client
	Age, Silence   time.Duration
	Locks, Waiters int
	Watches        int
}

// LeaseInfo describes a lease of a session of this replica.
type LeaseInfo struct {
	Hold       Hold
	owner      lock.Owner
	Session    string
	Client     string
	Age        time.Duration
	ValidFor   time.Duration
	Auto       bool
	Count      uint32
	Permits    uint32 // of a semaphore
	Annotation string
}

// WaiterInfo describes a request that waits. What nobody knows is zero: of one that waits elsewhere Waiters knows the owner
// and the position only, Inspect also what its replica says.
type WaiterInfo struct {
	Name       string        `json:"name"`
	Kind       lock.Kind     `json:"kind"`
	Owner      lock.Owner    `json:"owner"`
	Session    string        `json:"session,omitempty"` // empty for a unary call
	Client     string        `json:"client,omitempty"`
	Peer       string        `json:"peer,omitempty"`
	Replica    string        `json:"replica,omitempty"`
	Annotation string        `json:"annotation,omitempty"`
	Position   int           `json:"position"`
	Age        time.Duration `json:"age"`
	TimeLeft   time.Duration `json:"time_left,omitempty"` // 0: it waits for ever
}

// LockInfo is what the store knows of a name and, where this replica is concerned, what it adds.
type LockInfo struct {
	lock.State
	Client     string
	Annotation string
	Waiters    int
}

// Status is how a broker is.
type Status struct {
	Down                     error // why the store cannot be reached
	Draining                 bool
	Sessions, Locks, Waiters int
}

// Status tells how this broker is.
func (b *Broker) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{
		Down: b.down, Draining: b.draining || b.closed, Sessions: len(b.sessions),
		Locks: int(b.metrics.leases.Load()), Waiters: int(b.metrics.waiters.Load()),
	}
}

// Lock tells what is known of a name.
func (b *Broker) Lock(ctx context.Context, name string) (LockInfo, error) {
	if err := b.checkName(name); err != nil {
		return LockInfo{}, err
	}
	st, err := b.store.Look(ctx, name)
	if err != nil {
		return LockInfo{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.describeLocked(st), nil
}

const (
	// maxListings is how many lists are read from the store at a time. Each may look at 1,000 names at once, which keeps
	// Redis busy for some 25 ms, and nobody else is served meanwhile.
	maxListings = 2
	// listingTime is how long others wait for their turn.
	listingTime = time.Second
)

// mayList waits until it may read from the store. Call done afterwards.
func (b *Broker) mayList(ctx context.Context) (done func(), err error) {
	late := time.NewTimer(listingTime)
	defer late.Stop()
	select {
	case b.listings <- struct{}{}:
		return func() { <-b.listings }, nil
	case <-late.C:
		return nil, b.metrics.denied("listings", maxListings)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Locks reads some of the names that are held, anywhere, from the store.
func (b *Broker) Locks(ctx context.Context, prefix, cursor string, size int) ([]LockInfo, string, error) {
	done, err := b.mayList(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	states, next, err := b.store.List(ctx, prefix, cursor, size)
	if err != nil {
		return nil, "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	infos := make([]LockInfo, 0, len(states))
	for _, st := range states {
		infos = append(infos, b.describeLocked(st))
	}
	return infos, next, nil
}

func (b *Broker) describeLocked(st lock.State) LockInfo {
	info := LockInfo{State: st}
	q := b.queues[st.Name]
	if q == nil {
		return info
	}
	info.Waiters = q.waiters.len()
	l := b.ownedLocked(q, st.Owner)
	if l != nil {
		info.Client, info.Annotation = l.sess.client.Name, l.annotation
	}
	return info
}

// Sessions lists up to size open sessions, ordered by id, from the one after the given id on.
func (b *Broker) Sessions(after string, size int) []SessionInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var infos []SessionInfo
	b.order.sessions.AscendGreaterOrEqual(&Session{id: after}, func(s *Session) bool {
		if s.id == after {
			return true
		}
		if len(infos) == size {
			return false
		}
		infos = append(infos, SessionInfo{
			ID: s.id, Client: s.client, Age: time.Since(s.opened), Silence: time.Since(s.heard),
			Locks: len(s.list), Waiters: len(s.waiting), Watches: len(s.watched),
		})
		return true
	})
	return infos
}

// Key is where a lease is in the order: by name, then by fence.
func (i LeaseInfo) Key() string {
	return fmt.Sprintf("%s\x00%d\x00%s", i.Hold.Name, i.Hold.Fence, i.owner)
}

// leaseAt is a lease with such a key, or with a name alone.
func leaseAt(key string) *Lease {
	name, rest, _ := strings.Cut(key, "\x00")
	number, owner, _ := strings.Cut(rest, "\x00")
	fence, _ := strconv.ParseUint(number, 10, 64) // a key of somebody's own making is somewhere in the order, too
	return &Lease{name: name, fence: lock.Fence(fence), owner: lock.Owner(owner)}
}

// Leases lists up to size leases of this replica's sessions, ordered by their keys, from the key after the given one on.
func (b *Broker) Leases(prefix, after string, size int) []LeaseInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var page []LeaseInfo
	last, from := leaseAt(after), leaseAt(max(prefix, after))
	b.order.leases.AscendGreaterOrEqual(from, func(l *Lease) bool {
		if after != "" && l.compare(last) <= 0 {
			return true
		}
		if len(page) == size || !strings.HasPrefix(l.name, prefix) {
			return false
		}
		page = append(page, l.infoLocked())
		return true
	})
	return page
}

func (l *Lease) infoLocked() LeaseInfo {
	return LeaseInfo{
		Hold: l.hold(), owner: l.owner, Session: l.sess.id, Client: l.sess.client.Name, Age: time.Since(l.b.time(l.since)),
		ValidFor: max(time.Until(l.until), 0), Auto: l.auto, Count: l.count, Permits: l.permits, Annotation: l.annotation,
	}
}

// Waiters lists up to size requests that wait for a name, the next one first, from a position on: for a fair lock all
// there are anywhere, for others those of this replica.
func (b *Broker) Waiters(ctx context.Context, name string, from, size int) ([]WaiterInfo, error) {
	if err := b.checkName(name); err != nil {
		return nil, err
	}
	owners, err := b.store.Queue(ctx, name, from, size)
	b.walking.Lock()
	defer b.walking.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	if len(owners) == 0 && (err == nil || q == nil || q.places == nil) {
		return b.here(b.waitersLocked(q, from, size)), nil
	}
	if err != nil {
		return nil, err
	}
	infos := make([]WaiterInfo, 0, len(owners))
	for i, o := range owners {
		info := WaiterInfo{Name: name, Kind: lock.Fair, Owner: o}
		if q != nil && q.places != nil && q.places.of[o] != nil {
			info = q.places.of[o].infoLocked()
			info.Replica = b.cfg.Replica
		}
		info.Position = from + i
		infos = append(infos, info)
	}
	return infos, nil
}

// here says that some wait at this replica.
func (b *Broker) here(infos []WaiterInfo) []WaiterInfo {
	for i := range infos {
		infos[i].Replica = b.cfg.Replica
	}
	return infos
}

// waitersLocked are those who wait here; q may be nil. It walks to the first of them in pieces, with walking held.
func (b *Broker) waitersLocked(q *queue, from, size int) []WaiterInfo {
	if q == nil || from >= q.waiters.len() {
		return nil
	}
	c := &cursor{q.waiters.front}
	q.walk = c
	defer func() { q.walk = nil }()
	var p piece
	for range from {
		if c.at == nil {
			return nil
		}
		c.at = c.at.behind
		p.breakLocked(b, 1)
	}
	return pageLocked(c.at, from, size)
}

// pageLocked describes up to size waiters from one on, whose position is known.
func pageLocked(w *waiter, position, size int) (infos []WaiterInfo) {
	for ; w != nil && len(infos) < size; w = w.behind {
		info := w.infoLocked()
		info.Position = position
		infos = append(infos, info)
		position++
	}
	return infos
}

func (w *waiter) infoLocked() WaiterInfo {
	info := WaiterInfo{
		Name: w.claim.Name, Kind: w.claim.Kind, Owner: w.claim.Owner, Client: w.client, Peer: w.peer,
		Annotation: w.annotation, Age: time.Since(w.since),
	}
	if w.sess != nil {
		info.Session, info.Client, info.Peer = w.sess.id, w.sess.client.Name, w.sess.client.Peer
	}
	if w.wait != forever {
		info.TimeLeft = max(time.Until(w.since.Add(w.wait)), time.Millisecond)
	}
	return info
}

// ForceRelease frees a name whoever holds it. The holder's replica hears of it through the store and verifies its
// lease, which then is lost. Repeating it is harmless; after an unknown outcome repeat it.
func (b *Broker) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	if err := b.checkNameKind(name, k); err != nil {
		return false, err
	}
	released, err := b.store.ForceRelease(ctx, name, k)
	if released {
		b.metrics.forced.Inc()
	}
	return released, err
}
