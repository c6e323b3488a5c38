package broker

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// waiter is one request for a name, or for several, that is not granted yet. The mutex of its name guards what changes.
type waiter struct {
	arbiter.Waiter[waiter]
	b          *Broker
	shard      *shard       // of the first name
	all        []lock.Claim // if several names are asked for; Claim is the one it waits for
	list       request.List // the field by which the client named them
	shards     []int        // the numbers of the shards of all, in locking order
	lease      time.Duration
	auto       bool
	maxHold    time.Duration // of an auto lease; 0 is no bound
	annotation string
	waited     time.Duration // elsewhere, as its client says
	actor      string        // as the client named it; see actorOf

	sess   *Session // nil for a unary call
	holder string
	id     uint64
	client string           // the unary caller's name for itself
	peer   string           // and where it comes from
	who    session.Identity // and who it is; nil if everybody may do everything
	ownID  bool             // the unary caller chose its lease id, and may repeat its request
	gaveUp bool             // it has released that lease since, so it does not repeat it
	once   chan onceAnswer  // size 1, for a unary call's answer

	q         *queue
	timer     *time.Timer // ends a bounded wait
	apart     bool        // in no queue: it wants once more what its holder has, or comes instead of another
	span      *span       // nil if it is not traced
	tells     *telling    // who is in the way; nil if that is not wanted
	succeeded bool        // it came instead of a request and may have what that was granted; the store was not asked yet
	cancelled bool        // by its client, who does not make it again elsewhere
	parked    bool        // the history tells that it waits
	mayHave   bool        // it may have what a call took too late, or with an unknown outcome, see noteOutcomeLocked
}

// newWaiter is a new request of a session, for all that it asks for. Each request has a new owner, so it has nothing to
// do with what an earlier request of the same holder left in the store, or does there late.
func (s *Session) newWaiter(id uint64, req request.Acquire) *waiter {
	owner := ownerOf(s.ID(), req.Holder, id)
	mark := string(owner[strings.LastIndexByte(string(owner), '#'):])
	w := &waiter{
		b: s.b, shard: s.b.shardOf(req.Name),
		auto: req.Lease == nil, annotation: req.Annotation, actor: cmp.Or(req.Actor, s.Actor()), sess: s,
		waited: request.PastOf(req.Waited),
		holder: cmp.Or(req.Holder, mark), id: id,
	}
	w.Claim = lock.Claim{
		Name: req.Name, Kind: req.Kind, Owner: owner, TTL: s.TTL(), Tenant: s.Share(),
		Permits: request.PermitsOf(req.Kind, req.Permits), Limit: req.Limit,
	}
	if req.Lease != nil {
		w.lease, w.Claim.TTL = *req.Lease, *req.Lease
	}
	if req.MaxHold != nil {
		w.maxHold = *req.MaxHold
	}
	if req.TellHolder {
		w.tells = &telling{}
	}
	w.begin(req.Wait)
	if len(req.More) > 0 {
		w.several(req)
	}
	w.beginSpan(context.Background(), req.Traceparent)
	return w
}

// ownerOf is the owner in the store of what a request of the session took.
func ownerOf(id, holder string, request uint64) lock.Owner {
	if !named(holder) {
		holder = ""
	}
	owner := append(make([]byte, 0, 128), id...) // mostly on the stack
	owner = append(owner, ':')
	owner = append(owner, holder...)
	owner = append(owner, '#')
	return lock.Owner(strconv.AppendUint(owner, request, 10))
}

// partsOf takes apart what ownerOf put together.
func partsOf(o lock.Owner) (id, holder string, request uint64) {
	id, holder, _ = strings.Cut(string(o), ":")
	at := strings.LastIndexByte(holder, '#')
	request, _ = strconv.ParseUint(holder[at+1:], 10, 64) // 0 for an owner of another kind
	if at > 0 {
		holder = holder[:at]
	}
	return id, holder, request
}

// begin begins the wait, which is without an end if wait is nil.
func (w *waiter) begin(wait *time.Duration) {
	w.For, w.Since, w.Wait = w, time.Now(), arbiter.Forever
	if wait != nil {
		w.Wait = *wait
	}
}

// firstAsked is since when it waits, as people are told: here and elsewhere. Since is when it came here.
func (w *waiter) firstAsked() time.Time { return w.Since.Add(-w.waited) }

// want is what it asks for, as its session counts it.
func (w *waiter) want() session.Want {
	if w.all == nil {
		return session.Want{Locks: 1, Weight: lock.Weight(w.Claim.Kind, w.Claim.Permits)}
	}
	want := session.Want{Locks: len(w.all)}
	for _, c := range w.all {
		want.Weight += lock.Weight(c.Kind, c.Permits)
	}
	return want
}

// ttl is the TTL of an attempt made now. An auto lease ends one session TTL after its client was last heard, and no
// later than its max_hold.
func (w *waiter) ttl(now time.Time) time.Duration {
	if !w.auto {
		return w.lease
	}
	ttl := w.sess.AutoEnd().Sub(now)
	if w.maxHold > 0 {
		ttl = min(ttl, w.maxHold)
	}
	return ttl
}

// claimed are all claims of a request.
func (w *waiter) claimed() []lock.Claim {
	if w.all != nil {
		return w.all
	}
	return []lock.Claim{w.Claim}
}

// named says whether a client chose this holder.
func named(holder string) bool { return !strings.HasPrefix(holder, "#") }

// removeLocked takes a waiter out of its queue; after that only the caller may answer it. Its session finds it until
// then.
func (b *Broker) removeLocked(w *waiter) {
	q := w.q
	delete(w.shard.waiting, w)
	w.unlistByHolderLocked()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.tells != nil && w.tells.timer != nil {
		w.tells.timer.Stop()
	}
	if w.ownID && !w.Asking() {
		w.overLocked()
	}
	b.undoSucceededLocked(w)
	if q.Leave(&w.Waiter) {
		b.leavePlaceLocked(w)
	}
	b.undoDoubtfulLocked(w)
	q.signalLocked()
	q.dropIdleLocked()
}

// refuseLocked ends a request that was not granted: it leaves its queue and is answered.
func (b *Broker) refuseLocked(w *waiter, e session.Event) {
	if w.ownID && w.mayHaveLocked() {
		e = session.Failed{ID: w.id, Err: lock.ErrOutcomeUnknown}
	}
	b.removeLocked(w)
	b.answerLocked(w, e)
}

// parkLocked bounds the wait of a request that has to wait from now on, and tells its position.
func (b *Broker) parkLocked(w *waiter, position int) {
	w.q.Park(&w.Waiter)
	b.boundLocked(w)
	w.span.beginWait()
	w.shard.waiting[w] = true
	w.queued()
	if changed := w.Tells(position); w.sess != nil {
		w.tellQueuedLocked(position, changed)
	}
}

// refuseAll ends the unary calls that wait with an error, when there are no sessions any more.
func (b *Broker) refuseAll(err error) {
	b.eachShard(func(h *shard) {
		var all []*waiter // one that leaves may move others
		for _, q := range h.queues {
			for w := range q.All() {
				if w.For.sess == nil {
					all = append(all, w.For)
				}
			}
		}
		for _, w := range all {
			if !w.Answered() {
				b.refuseLocked(w, session.Failed{Err: err})
			}
		}
	})
}

// overAlready says whether there is nothing to end: the request was answered, or was refused before it was in any
// queue. Its session shows it to others even then, for a moment.
func (w *waiter) overAlready() bool { return w.Answered() || w.q == nil }

// Cancel ends the wait of a request, and says whether it waited.
func (w *waiter) Cancel() bool {
	w.lock()
	defer w.unlock()
	if w.overAlready() {
		return false
	}
	w.cancelled = true
	w.b.removeLocked(w)
	w.b.answerLocked(w, session.NotGranted{ID: w.id, Cause: session.ErrCancelled})
	return true
}

// Review ends it with the error of a name that its client may lock no more, if there is one.
func (w *waiter) Review(who session.Identity) {
	w.lock()
	defer w.unlock()
	if !w.overAlready() {
		w.reviewLocked(who)
	}
}

func (w *waiter) reviewLocked(who session.Identity) {
	if err := w.forbidden(who); err != nil {
		w.b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// forbidden is the error of a name that a client may not lock; nil if there is none. A unary caller must also still be
// who it was: for the client of a session, the session checks that.
func (w *waiter) forbidden(who session.Identity) error {
	if who == nil {
		return nil
	}
	if w.sess == nil {
		if err := who.Still(); err != nil {
			return err
		}
	}
	for _, c := range w.claimed() {
		if err := who.MayLock(c.Name); err != nil {
			return err
		}
	}
	return nil
}

// Withdraw ends it without an answer: its session has ended here.
func (w *waiter) Withdraw() {
	w.lock()
	defer w.unlock()
	if !w.overAlready() {
		w.refused(errWithdrawn)
		w.b.removeLocked(w)
		w.sess.Leave(w.id, w)
	}
}
