package broker

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// While a session of this replica holds a name for itself alone, the store is asked for nobody. A name that is freed by
// force is free at once, but the replica of its holder learns of it only when it verifies the hold. Whoever was told
// that the name was freed must not be refused it because of a hold that is only remembered. So that hold is doubted:
// the store is asked, until it has said that the hold is there. A hold is doubted
//
//   - at the replica that freed the name, before it answers,
//   - at the others when they are told that the name is about to be freed, for doubtTime, and when they hear that it
//     was.
//
// A replica that hears of neither, because it is cut off, remembers the hold until it verifies it by itself.

// doubtTime is how long a forced release takes at most, from its announcement until all replicas have heard of it,
// besides the call of the store that frees the name.
const doubtTime = 10 * time.Second

// Doubt implements inspect.Local.
func (o local) Doubt(name string) { o.doubtHolds(name, doubtTime+o.cfg.AnswerTime) }

// doubtKept is how long after its end a doubt is remembered. A hold that the store found before the doubt may become
// known here that much later: while its session is being resumed, or the store is asked for several names.
const doubtKept = time.Minute

// mostDoubts bounds how many names of a shard have a doubt of their own. If there are more, all new holds of the shard
// are doubted: that costs calls of the store, and refuses nobody.
const mostDoubts = 32

// doubtHolds doubts the holds of a name, also those that are not known here yet, until the store finds them by a call
// that begins later than after from now. If after is 0, a hold that shares the name with nobody is verified at once.
func (b *Broker) doubtHolds(name string, after time.Duration) {
	h := b.shardOf(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	b.noteDoubtLocked(h, name, after)
	q := h.queues[name]
	if q == nil {
		return
	}
	if l := q.holder; l != nil { // a shared hold keeps nobody from asking the store
		if l.doubted = true; after == 0 {
			b.keeper.Hurry(l)
		}
	}
	q.noteHeldLocked()
	q.Passed() // what is being passed on may be there no more
	b.askAgainLocked(q)
}

// verifyHolds has all holds of a name verified. There may be very many that share it, so others get the mutex between
// two of them.
func (b *Broker) verifyHolds(name string) {
	var all []*Lease
	b.withQueue(name, func(q *queue) { all = slices.AppendSeq(make([]*Lease, 0, len(q.sharers)+1), q.leasesLocked()) })
	for _, l := range all {
		l.Hurry()
	}
}

// noteDoubtLocked remembers a doubt of a name. The doubt of all names of the shard is under "".
func (b *Broker) noteDoubtLocked(h *shard, name string, after time.Duration) {
	until, known := h.doubted[name]
	if !known && len(h.doubted) >= mostDoubts {
		name = ""
		until, known = h.doubted[name]
	}
	h.doubted[name] = max(until, b.stamp(time.Now().Add(after))+1) // what began in this instant may have begun before
	if !known {
		time.AfterFunc(after+doubtKept, func() { b.forgetDoubt(h, name) })
	}
}

// doubtedUntil is a stamp: holds of the name that the store last found before it are doubted.
func (h *shard) doubtedUntil(name string) stamp { return max(h.doubted[name], h.doubted[""]) }

// forgetDoubt forgets a doubt when it is old enough.
func (b *Broker) forgetDoubt(h *shard, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := time.Until(b.time(h.doubted[name]).Add(doubtKept)); left > 0 { // there was another one
		time.AfterFunc(left, func() { b.forgetDoubt(h, name) })
		return
	}
	delete(h.doubted, name)
}

// doubtedLocked says whether a lease may be there no more.
func (l *Lease) doubtedLocked() bool { return l.seen < l.q.shard.doubtedUntil(l.name) }

// followsLocked has a try follow those who wait, if it may, and says whether it does: what the store answers for them
// counts for the try. While a name is about to be freed, what the store answered before may be true no more, so it is
// asked again. If the queue is full the try is refused because of the holder, and not for its length.
func (b *Broker) followsLocked(q *queue, w *waiter) bool {
	now := time.Now()
	switch {
	case !w.Try() || q.Len() >= b.cfg.Limits.QueueLength:
		return false
	case w.Claim.Kind.Shared() && b.soonFreedLocked(q):
		q.Wake()
	}
	return q.Follow(&w.Waiter, now)
}

// soonFreedLocked says whether a name is about to be freed by force, or may just have been, unheard by this replica.
func (b *Broker) soonFreedLocked(q *queue) bool {
	return b.stamp(time.Now()) < q.shard.doubtedUntil(q.Name())
}

// keepNewLocked keeps a lease that its session has just got. One that may be there no more is verified.
func (b *Broker) keepNewLocked(l *Lease) {
	b.keeper.Keep(l, l.until)
	if l.doubted || l.seen < stamp(b.back.Load()) {
		b.keeper.Hurry(l)
	}
	b.shutLocked(l.q)
}

// believeLocked believes again in a lease that the store has found.
func (l *Lease) believeLocked() {
	l.doubted = false
	l.q.noteHeldLocked()
	l.b.shutLocked(l.q)
}

// shutLocked refuses the tries that follow others, if a session of this replica holds the name for itself alone by now.
func (b *Broker) shutLocked(q *queue) {
	if tries := q.Shut(); len(tries) > 0 {
		b.refuseEachLocked(tries, q.heldHereLocked)
	}
}

// changed has the store asked for those who wait here to share a name: it may grant by now what it refused before. They
// would hear of the change anyway, but a client that was told of it may try earlier. Waiters that want the name for
// themselves alone hear of it as those at other replicas do, so that none of them is always first.
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

// refusedAtOnce is how many tries that followed others are refused before others get the mutex.
const refusedAtOnce = 256

// refuseEachLocked refuses tries of one name that follow others. held says who holds the name.
func (b *Broker) refuseEachLocked(tries []*arbiter.Waiter[waiter], held func(*waiter) *lock.HeldError) {
	first := tries[:min(len(tries), refusedAtOnce)]
	for _, t := range first {
		b.refuseLocked(t.For, b.refusalLocked(t.For, held(t.For)))
	}
	if rest := tries[len(first):]; len(rest) > 0 {
		b.goTaking(func() { b.refuseRest(rest, held) })
	}
}

// refuseRest refuses those of tries that still follow others.
func (b *Broker) refuseRest(tries []*arbiter.Waiter[waiter], held func(*waiter) *lock.HeldError) {
	for part := range slices.Chunk(tries, refusedAtOnce) {
		h := part[0].For.shard
		h.mu.Lock()
		for _, t := range part {
			if !t.Answered() && !t.Asking() && t.For.q.Follows(t) {
				b.refuseLocked(t.For, b.refusalLocked(t.For, held(t.For)))
			}
		}
		h.mu.Unlock()
	}
}
