package broker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// local is what package inspect asks of its broker.
type local struct{ *Broker }

// Describe implements inspect.Local.
func (o local) Describe(st lock.State) session.LockInfo {
	info := session.LockInfo{State: st}
	o.withQueue(st.Name, func(q *queue) {
		info.Waiters = q.Len()
		if l := o.ownedLocked(q, st.Owner); l != nil {
			info.Client, info.Annotation, info.Count = l.sess.Client().Name, l.annotation, l.count
		}
	})
	return info
}

// Know implements inspect.Local.
func (o local) Know(name string, holders, waiters int) (k inspect.Known) {
	o.withQueue(name, func(q *queue) {
		k.Waiting = q.Len()
		for l := range q.leasesLocked() {
			if len(k.Holders) >= holders {
				break
			}
			k.Holders = append(k.Holders, l.holderLocked(time.Now()))
		}
		for w := range q.All() {
			if len(k.Waiters) >= waiters {
				break
			}
			info := w.For.toldLocked()
			info.Position = len(k.Waiters)
			k.Waiters = append(k.Waiters, info)
		}
	})
	return k
}

// waiting are the requests of sessions that wait here and that some accepts: the most that wait longest. more says
// whether there are more. some is called with the mutex of the first name held.
func (b *Broker) waiting(most int, some func(*waiter) bool) (ws []*waiter, more bool) {
	longest := limits.First[*waiter]{Most: most, Compare: func(v, w *waiter) int {
		return v.firstAsked().Compare(w.firstAsked())
	}}
	b.eachShard(func(h *shard) {
		for w := range h.waiting {
			if w.sess != nil && some(w) {
				longest.Add(w)
			}
		}
	})
	return longest.All()
}

// Requests implements inspect.Local.
func (o local) Requests(f inspect.Filter, most int) (all []inspect.Waiter) {
	ws, _ := o.waiting(most, func(w *waiter) bool { return w.infoLocked().Passes(f) })
	for _, w := range ws {
		w.lock()
		if w.Waits() {
			all = append(all, w.toldLocked())
		}
		w.unlock()
	}
	return all
}

// Status is what a broker has, and whether it can serve.
type Status struct {
	Down                     error // why the store cannot be reached
	Draining                 bool
	Sessions, Locks, Waiters int
}

// Status is the broker's status now. It locks all shards in turn.
func (b *Broker) Status() Status {
	locks, waiters := 0, 0
	b.eachShard(func(h *shard) { locks, waiters = locks+h.leases.Len(), waiters+len(h.waiting) })
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{
		Down: b.down, Draining: b.sessions.Draining(), Sessions: b.sessions.Len(), Locks: locks, Waiters: waiters,
	}
}

// Sessions lists up to size open sessions, ordered by id, from the one after the given id on.
func (b *Broker) Sessions(after string, size int) []inspect.Session {
	var page []inspect.Session
	for _, s := range b.sessions.Page(after, size) {
		page = append(page, inspect.Session{ID: s.ID(), Client: s.Client(), Info: s.Info()})
	}
	return page
}

// leaseAt is a lease that stands where a key of Leases does, or a name alone. Keys have the order of their leases.
func leaseAt(key string) *Lease {
	name, rest, _ := strings.Cut(key, "\x00")
	number, owner, _ := strings.Cut(rest, "\x00")
	fence, _ := strconv.ParseUint(number, 10, 64) // a key of somebody's own making is somewhere in the order, too
	return &Lease{name: name, fence: lock.Fence(fence), owner: lock.Owner(owner)}
}

// Leases lists up to size leases of this replica's sessions, ordered by name and then by fence, from the key after the
// given one on.
func (b *Broker) Leases(prefix, after string, size int) (page []inspect.Leased) {
	lockEach(b.inOrder(prefix, leaseAt(max(prefix, after)), size), func(_ int, l *Lease) {
		h := l.holderLocked(time.Now())
		h.Annotation = inspect.Shortened(h.Annotation)
		key := fmt.Sprintf("%s\x00%020d\x00%s", l.name, l.fence, l.owner)
		page = append(page, inspect.Leased{Key: key, Name: l.name, Holder: h})
	})
	return page
}

// toldLocked is what is told of a request; infoLocked costs less, and says enough to choose which are told.
func (w *waiter) toldLocked() inspect.Waiter {
	info := w.infoLocked()
	info.ActorMark = inspect.MarkOf(w.actor)
	return info
}

func (w *waiter) infoLocked() inspect.Waiter {
	info := inspect.Waiter{
		Name: w.Claim.Name, Kind: w.Claim.Kind, Owner: w.Claim.Owner, Client: w.client, Peer: w.peer,
		Annotation: w.annotation, Age: time.Since(w.firstAsked()), Identity: nameOf(w.who),
	}
	if w.sess != nil {
		client := w.sess.Client()
		info.Session, info.Client, info.Peer, info.Identity = w.sess.ID(), client.Name, client.Peer, client.Identity
	}
	if w.Wait != arbiter.Forever {
		info.TimeLeft = max(time.Until(w.Since.Add(w.Wait)), time.Millisecond)
	}
	return info
}

// End implements inspect.Local.
func (o local) End(ctx context.Context, id string, by session.Forced) (was *inspect.Session, sure bool) {
	e := o.sessions.EndForced(ctx, id, by)
	if e.Session == nil {
		return nil, false
	}
	return &inspect.Session{ID: id, Client: e.Session.Client(), Info: e.Was}, e.Sure
}

// EndSession ends a session wherever it is; see inspect.Inspector. Texts that are too long are lock.ErrInvalid.
func (b *Broker) EndSession(ctx context.Context, id string, f session.Forced) (inspect.Ended, error) {
	if err := b.rules.Forced(f); err != nil {
		return inspect.Ended{}, err
	}
	return b.Inspector.EndSession(ctx, id, f)
}

// AnnounceForce tells all replicas that a name is about to be released by force, so that they can tell its holders by
// whom and why, and returns who holds it. Texts that are too long are lock.ErrInvalid; after other errors the name can
// be released all the same.
func (b *Broker) AnnounceForce(ctx context.Context, name string, f session.Forced) ([]inspect.Holder, error) {
	if err := b.rules.Forced(f); err != nil {
		return nil, err
	}
	return b.Announce(ctx, name, f)
}

// ForceRelease frees a name whoever holds it, and says whether it was held. The holder's replica hears of it through
// the store and verifies its lease, which then is lost. From the answer on nobody is refused the name here because of
// what was held before, nor at the other replicas that an AnnounceForce reached. Repeating it is harmless; after an
// unknown outcome repeat it.
func (b *Broker) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	if err := b.rules.NameKind(name, k); err != nil {
		return false, err
	}
	released, err := b.store.ForceRelease(ctx, name, k)
	b.doubtHolds(name, 0)
	if released {
		b.verifyHolds(name)
		b.metrics.forced.Inc()
		b.forcedNow(name, k)
	}
	return released, err
}

func (l *Lease) holderLocked(now time.Time) inspect.Holder {
	return inspect.Holder{
		Owner: l.owner, Origin: inspect.OriginSession, Kind: l.kind, Session: l.sess.ID(), Client: l.sess.Client(),
		Replica: l.b.cfg.Replica, Age: l.heldFor(now), TTL: max(l.until.Sub(now), 0), Auto: l.auto,
		Fence: l.fence, Count: l.count, Permits: l.permits, Annotation: l.annotation,
		ActorMark: inspect.MarkOf(cmp.Or(l.actor, l.sess.Actor())),
	}
}

// Leases are kept in the order in which operators are told them, so that a page costs what is on it and not what there
// is.

// orderDegree is the width of the trees.
const orderDegree = 32

// compare orders leases: by name, then by fence; permits and readers may share one.
func (l *Lease) compare(o *Lease) int {
	return cmp.Or(strings.Compare(l.name, o.name), cmp.Compare(l.fence, o.fence),
		strings.Compare(string(l.owner), string(o.owner)))
}

// inOrder are the first size leases of this replica's sessions that come after behind and whose names begin with
// prefix. Each shard has its own order, and is asked only for what comes before the last one found so far.
func (b *Broker) inOrder(prefix string, behind *Lease, size int) (page []*Lease) {
	first := limits.First[*Lease]{Most: size, Compare: (*Lease).compare}
	b.eachShard(func(h *shard) {
		h.leases.AscendGreaterOrEqual(behind, func(l *Lease) bool {
			return l.compare(behind) == 0 || strings.HasPrefix(l.name, prefix) && first.Add(l)
		})
	})
	page, _ = first.All()
	return page
}
