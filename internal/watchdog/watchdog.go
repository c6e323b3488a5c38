// Package watchdog keeps leases alive and ends those that are lost.
//
// # What it promises
//
// A lease that can be renewed is renewed at every Interval of its own, and ended no later than at the end of its
// validity if it cannot. Renewals that are due at about the same time share store calls; calls are under way side
// by side, so a slow one delays its own leases only. A renewal that failed is tried again soon.
//
// The leases of a group are renewed in a round after each sign of life of their client. If none comes, the next round
// begins one Interval after the last one, or a little later. A round is spread over a part of the Interval.
//
// # What it does not promise
//
// It does not judge whether a client lives: the TTL that a Lease asks for depends on that.
//
// # How it works
//
// One loop plans everything; there is no goroutine and no timer for a lease. Groups (group.go) know whose renewal is
// due without looking at those whose is not. The end of each validity, and the renewals of leases without a group and
// of those that failed, are in a timeline (timed.go). Leases that are due are asked what they need (batch.go), and
// renewed by a store call in its own goroutine. All this is in shards (shard.go), so sessions do not share one mutex.
//
// Leases of a group are renewed, all others only verified. They are never in the same call: however long verifications
// take, and however many there are, renewals have room. Bounds are counted in what the leases cost the store.
package watchdog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// batchWindow is the part of an interval by which a renewal may come early to share a call.
	batchWindow = 20
	// retries is the part of an interval after which a failed renewal is tried again.
	retries = 10
	// maxBatch bounds what one call costs, in exclusive locks, unless one lease alone costs more. Many calls may be under
	// way.
	maxBatch = 1000
	// maxHurried bounds the calls under way for leases that are hurried, or whose renewal failed, and likewise the calls
	// that verify. There may be a million such leases: sent at once they would keep the store from answering anything
	// else, and more would fail.
	maxHurried = 4
	// maxUnderWay is what the renewals under way may cost before the next piece of a round is taken. What is more than the
	// store can do waits here, in the order in which it was due, and does not time out. Calls for hurried leases do not
	// wait for this.
	maxUnderWay = 8 * maxBatch
	// callTimeout bounds a call, besides the store's own bounds.
	callTimeout = 5 * time.Second
)

// Lease is what a watchdog has to know of a lease of type L. Renewals and Renewed are asked of one lease for several:
// ls are leases like it, maybe of many sessions. The methods take the mutexes that they need, and none of the watchdog
// is held meanwhile; but Note, Group, Weight and Interval take none.
type Lease[L any] interface {
	comparable
	// Note is what the watchdog notes of the lease.
	Note() *lock.Note
	// Group is what the watchdog notes of the lease's group; nil for a lease that is verified by itself. Only Keep asks.
	Group() *lock.Note
	// Weight is what it costs the store to renew it, see lock.Weight. Only Keep asks.
	Weight() int
	// Interval is the time between two renewals. It never changes.
	Interval() time.Duration
	// Name is for logs.
	Name() string

	// Renewals sets rs to the renewals that would keep ls now, and until to the ends of their validities: zero if over.
	Renewals(now time.Time, ls []L, rs []lock.Renewal, until []time.Time)
	// Renewed notes renewals whose call began at start, and sets until to when each validity ends now.
	Renewed(start time.Time, ls []L, rs []lock.Renewal, until []time.Time)
	// Reduced says whether permits were released since a time: a renewal that began then asked for more than there are.
	Reduced(since time.Time) bool
	// Lose ends a lease that is held no more.
	Lose(reason lock.LostReason)
}

// Watchdog keeps leases; it is what broker.Keeper asks for.
type Watchdog[L Lease[L]] struct {
	store   lock.Holds
	log     *zap.Logger
	metrics *metrics
	epoch   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	wake    chan struct{} // size 1
	wg      sync.WaitGroup
	first   int // the shard that the loop looks at first, another one each time
	shards  [shards]shard[L]

	placed   atomic.Uint32       // leases without a group that were put into a shard
	hurried  [sorts]atomic.Int32 // calls under way for leases that are hurried, by sort
	underWay atomic.Int64        // what the renewals under way cost
	looked   atomic.Int64        // when Late last looked
	late     atomic.Int64        // how late the next round was then

	over lock.Teller[L] // leases that are to be told that they are over
}

// New starts a watchdog. Close ends it.
func New[L Lease[L]](store lock.Holds, log *zap.Logger, reg prometheus.Registerer) *Watchdog[L] {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watchdog[L]{
		store: store, log: log.Named("watchdog"), metrics: newMetrics(reg), epoch: time.Now(),
		ctx: ctx, stop: stop, wake: make(chan struct{}, 1),
	}
	for i := range w.shards {
		s := &w.shards[i]
		s.w, s.number, s.groups = w, uint32(i), make([]*group, 1) //nolint:gosec // there are few
		s.near, s.rounds = newTimeline(), newTimeline()
	}
	w.looked.Store(-int64(lookPause))
	w.wg.Go(w.loop)
	return w
}

// Close stops all renewals and waits for those under way.
func (w *Watchdog[L]) Close() {
	w.stop()
	w.wg.Wait()
}

func (w *Watchdog[L]) now() moment { return w.moment(time.Now()) }

func (w *Watchdog[L]) moment(t time.Time) moment { return int64(t.Sub(w.epoch)) }

// lookPause is for how long Late repeats what it found: each message of a client asks, and to look takes many mutexes.
const lookPause = time.Millisecond

// Late is how late the next round of renewals is, because the store or this process has more to do than it can.
func (w *Watchdog[L]) Late() time.Duration {
	now, looked := w.now(), w.looked.Load()
	if now-looked >= int64(lookPause) && w.looked.CompareAndSwap(looked, now) {
		_, planned := w.oldest()
		w.late.Store(max(now-planned, 0))
	}
	return time.Duration(w.late.Load())
}

// Keep begins to keep a lease that is valid until a time, or notes that its validity or its group changed. Nobody else
// may call Keep or Drop for the same lease meanwhile.
func (w *Watchdog[L]) Keep(l L, until time.Time) {
	for !w.keep(l, until) {
	}
}

func (w *Watchdog[L]) keep(l L, until time.Time) bool {
	note, group := l.Note().Load(), l.Group()
	at := note
	if group != nil && group.Load() != 0 {
		at = group.Load()
	}
	if at == 0 {
		at = w.placed.Add(1)
	}
	s := w.shardOf(at)
	if note != 0 && !s.has(note) { // it was without a group
		w.Drop(l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepLocked(l, group, until)
}

// shardOf is where something with this note is.
func (w *Watchdog[L]) shardOf(note uint32) *shard[L] { return &w.shards[note%shards] }

// Drop ends what Keep began. A renewal under way may still be told to the lease.
func (w *Watchdog[L]) Drop(l L) {
	note := l.Note().Load()
	if note == 0 {
		return
	}
	s := w.shardOf(note)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(l)
}

// Hurry renews a lease now; if there are many, as fast as the store answers. One whose renewal is under way is renewed
// once more after it.
func (w *Watchdog[L]) Hurry(l L) {
	s := w.shardOf(l.Note().Load())
	s.mu.Lock()
	defer s.mu.Unlock()
	if note := l.Note().Load(); note != 0 && s.has(note) {
		s.hurryLocked(numberOf(note), s.entries.at(numberOf(note)))
	}
}

// Heard begins a round of the group with this note, after a sign of life.
func (w *Watchdog[L]) Heard(note *lock.Note) {
	s := w.shardOf(note.Load())
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := note.Load(); m != 0 && s.has(m) {
		s.heardLocked(numberOf(m))
	}
}

// lose has a lease told that its validity is over. One goroutine tells all such leases: when very many end at once that
// takes long, and meanwhile others have to be renewed.
func (w *Watchdog[L]) lose(l L) {
	if w.over.Add(l) {
		w.wg.Go(func() { w.over.Tell(func(l L) { l.Lose(lock.LostExpired) }) })
	}
}

// rouse has the loop look now.
func (w *Watchdog[L]) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// mayBegin says whether more pieces of rounds may be under way, and mayHurry whether more calls for what is ready.
func (w *Watchdog[L]) mayBegin() bool { return w.underWay.Load() < maxUnderWay }

func (w *Watchdog[L]) mayHurry(so sort) bool { return w.hurried[so].Load() < maxHurried }

func (w *Watchdog[L]) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for so, l := range w.due() {
			if len(l.items) > 0 {
				w.renew(w.ask(sort(so), l.items))
			}
		}
		timer.Reset(w.sleep())
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// sleep says how long the loop may sleep.
func (w *Watchdog[L]) sleep() time.Duration {
	now := w.now()
	at := never
	for i := range w.shards {
		at = min(at, w.shards[i].next(now))
	}
	return max(time.Duration(at-now), 0)
}
