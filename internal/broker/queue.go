package broker

import (
	"iter"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// queue is what is known here of one name: who holds it, who wants it, and whose turn it is, which an arbiter.Queue
// decides. It exists while somebody here holds the name or asks for it. The mutex of its shard guards all fields.
type queue struct {
	arbiter.Queue[waiter]
	shard   *shard
	holder  *Lease            // alone: exclusive, fair or writing
	sharers map[sharer]*Lease // readers and holders of permits
	driving bool              // the driver runs
	wake    chan struct{}     // size 1, wakes the driver; nil before it had a goroutine
}

// sharer is a holder of a name that is shared.
type sharer struct {
	sess   *session.Session
	kind   lock.Kind
	holder string
}

func (l *Lease) sharer() sharer { return sharer{l.sess.Session, l.kind, l.holder} }

// leaseLocked is the lease of a holder of the session, nil if there is none.
func (s *Session) leaseLocked(name string, k lock.Kind, holder string) *Lease {
	q := s.b.shardOf(name).queues[name]
	if q == nil {
		return nil
	}
	l, who := q.holder, sharer{s.Session, k, holder}
	if l == nil || l.sharer() != who {
		l = q.sharers[who]
	}
	if l == nil || l.over {
		return nil
	}
	return l
}

// ownedLocked is the lease of an owner that holds the name of a queue, nil if there is none. An owner has the id of its
// session and its holder, see ownerOf.
func (b *Broker) ownedLocked(q *queue, o lock.Owner) *Lease {
	if l := q.holder; l != nil && l.owner == o {
		return l
	}
	if len(q.sharers) == 0 {
		return nil
	}
	id, holder, _ := partsOf(o)
	if l := q.sharers[sharer{b.sessions.Session(id), lock.Read, holder}]; l != nil && l.owner == o {
		return l
	}
	return nil
}

// queueLocked returns the queue of a name, new if need be.
func (b *Broker) queueLocked(name string) *queue {
	h := b.shardOf(name)
	q := h.queues[name]
	if q == nil {
		q = &queue{shard: h}
		q.Init(name)
		h.queues[name] = q
	}
	return q
}

// withQueue calls f with the queue of a name, if there is one.
func (b *Broker) withQueue(name string, f func(q *queue)) {
	h := b.shardOf(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.queues[name]; q != nil {
		f(q)
	}
}

// dropIdleLocked forgets a queue that nobody needs. One whose holder is doubted is needed, although the arbiter takes
// its name for free.
func (q *queue) dropIdleLocked() {
	if q.holder == nil && q.Idle() && !q.driving && q.shard.queues[q.Name()] == q {
		delete(q.shard.queues, q.Name())
	}
}

// holdLocked notes that a session of this replica holds the name.
func (q *queue) holdLocked(l *Lease) {
	switch {
	case !l.kind.Shared():
		q.holder = l
	case q.sharers == nil:
		q.sharers = map[sharer]*Lease{l.sharer(): l}
	default:
		q.sharers[l.sharer()] = l
	}
	l.doubted = l.doubtedLocked()
	q.noteHeldLocked()
}

// noteHeldLocked tells the arbiter how the name is held: a doubted holder does not count.
func (q *queue) noteHeldLocked() { q.Held(q.holder != nil && !q.holder.doubted, len(q.sharers)) }

// unholdLocked notes that a session of this replica holds the name no more.
func (q *queue) unholdLocked(l *Lease) {
	if q.holder == l {
		q.holder = nil
	}
	if k := l.sharer(); q.sharers[k] == l {
		delete(q.sharers, k)
	}
	q.noteHeldLocked()
}

// leasesLocked are all leases of the name that sessions of this replica hold.
func (q *queue) leasesLocked() iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		if q.holder != nil && !yield(q.holder) {
			return
		}
		for _, l := range q.sharers {
			if !yield(l) {
				return
			}
		}
	}
}
