package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// While a session of this replica holds a name for itself alone, the store is asked for nobody. A name that is freed by
// force is free at once, but the replica of its holder learns it only when it has verified the hold. Whoever was
// answered that the name was freed must not be refused it because of what is remembered. So what is remembered is
// doubted: the store is asked, until it has said that the hold is there. That is so
//
//   - at the replica that freed the name, before it answers,
//   - at the others when they are told that the name is about to be freed, for doubtTime, and when they hear that it
//     was.
//
// A replica that hears of neither, because it is cut off, remembers the hold until it verifies it by itself.

// doubtTime is how long a forced release takes at most, from its announcement until all replicas have heard of it.
const doubtTime = 10 * time.Second

// Doubt implements inspect.Local.
func (o local) Doubt(name string) { o.doubtHolds(name, doubtTime) }

// doubtHolds has no hold of a name believed that the store did not find after this moment, or so long after it. At this
// moment all are verified.
func (b *Broker) doubtHolds(name string, after time.Duration) {
	b.withQueue(name, func(q *queue) {
		q.doubted = max(q.doubted, b.stamp(time.Now().Add(after))+1) // what began in this instant may have begun before
		for l := range q.leasesLocked() {
			if l.doubted = true; after == 0 {
				b.keeper.Hurry(l)
			}
		}
		q.noteHeldLocked()
		if after == 0 {
			q.Passed() // whoever left it has it no more
		}
		b.askAgainLocked(q)
	})
}

// keepNewLocked keeps a lease that its session has just got. One that may be there no more is verified. If nobody
// shares the name with it, tries that waited for others are refused.
func (b *Broker) keepNewLocked(l *Lease) {
	b.keeper.Keep(l, l.until)
	if l.doubted {
		b.keeper.Hurry(l)
	}
	for _, t := range l.q.Shut() {
		b.refuseLocked(t.For, b.refusalLocked(t.For, l.q.heldHereLocked(t.For)))
	}
}

// changed has the store asked for those who wait for a name that is shared: what it refused them before it may grant by
// now. They would hear of it in a moment; whoever was answered that the name changed may try earlier. Who waits to have
// a name alone hears of it as those at other replicas do, so that none of them is always first.
func (b *Broker) changed(name string) {
	b.withQueue(name, func(q *queue) {
		if h := q.Head(); h != nil && h.Claim.Kind.Shared() {
			b.askAgainLocked(q)
		}
	})
}

func (b *Broker) askAgainLocked(q *queue) {
	q.Wake()
	b.driveLocked(q)
}

// refuseEachLocked refuses tries that followed one that waits.
func (b *Broker) refuseEachLocked(tries []*arbiter.Waiter[waiter], held *lock.HeldError) {
	for _, t := range tries {
		b.refuseLocked(t.For, b.refusalLocked(t.For, held))
	}
}
