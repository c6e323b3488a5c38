// Package watchdog keeps leases alive and ends those that are lost.
//
// # What it promises
//
// A lease that can be renewed is renewed at every Interval of its own, and ended no later than at the end of its
// validity if it cannot. Renewals that are due at about the same time share store calls; calls are under way side
// by side, so a slow one delays its own leases only. A renewal that failed is tried again soon.
//
// The leases of a group are renewed in a round after each sign of life, a little later than the Interval at most if that
// is awaited. A round is spread over a part of the Interval.
//
// # What it does not promise
//
// It does not judge whether a client lives: that is in the TTL that a Lease asks for.
//
// # How it works
//
// One loop plans everything; there is no goroutine, no timer and no allocation for a lease. Groups (group.go) know whose
// renewal is due without looking at those whose is not. The end of each validity, and the renewals of leases without a
// group and of those that failed, are in a wheel (wheel.go). What is due is asked what it needs (batch.go), and renewed by
// a store call in a goroutine of its own.
package watchdog

import (
	"context"
	"sync"
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
	// maxBatch bounds the leases of one call. Many calls may be under way.
	maxBatch = 1000
	// maxHurried bounds the calls under way for leases that are hurried, or whose renewal failed. Those may be all of a million;
	// sent at once they would keep the store from answering anything else, and more would fail.
	maxHurried = 4
	// callTimeout bounds a call, besides the store's own bounds.
	callTimeout = 5 * time.Second
)

// Lease is what a watchdog has to know of a lease of type L. Many leases share a mutex, so what is asked often is asked of
// one of them for several: L is comparable, and ls are leases like it.
type Lease[L any] interface {
	comparable
	// Mark is the watchdog's room in the lease.
	Mark() *lock.Mark
	// Group is the room in what its group has in common; nil for a lease that is renewed by itself. Only Keep asks.
	Group() *lock.Mark
	// Interval is the time between two renewals. It never changes.
	Interval() time.Duration
	// Name is for logs.
	Name() string

	// Renewals says what would keep leases now, and until when each is valid: zero for one that is over.
	Renewals(now time.Time, ls []L, rs []lock.Renewal, until []time.Time)
	// Renewed takes note of renewals whose call began at start, and says until when each lease is valid now.
	Renewed(start time.Time, ls []L, rs []lock.Renewal, until []time.Time)
	// Reduced says whether a renewal that began at a time asked for more than there is by now.
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
	list    []item[L] // the loop's
	batches sync.Pool // of *batch[L]

	mu         sync.Mutex // guards the fields below; the mutex of the leases may be held when it is taken, never after
	entries    entries[L]
	wheel      wheel
	groups     []*group // by number, from 1 on
	freeGroups []uint32
	rounds     timeline // of groups
	ready      []uint32 // entries to be renewed now
	hurried    int      // calls under way for those
	wakeAt     moment   // when the loop looks next. Locks that come and go in between do not wake it.
}

// New starts a watchdog. Close ends it.
func New[L Lease[L]](store lock.Holds, log *zap.Logger, reg prometheus.Registerer) *Watchdog[L] {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watchdog[L]{
		store: store, log: log.Named("watchdog"), metrics: newMetrics(reg), epoch: time.Now(),
		ctx: ctx, stop: stop, wake: make(chan struct{}, 1), groups: make([]*group, 1),
	}
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

// Keep begins to keep a lease, or takes note that its validity, which is given, or its group changed.
func (w *Watchdog[L]) Keep(l L, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark, group := l.Mark(), l.Group()
	id := uint32(*mark)
	fresh := id == 0
	if fresh {
		id = w.entries.add(entry[L]{lease: l, renewAt: never, slot: outside})
		*mark = lock.Mark(id)
	}
	e := w.entries.at(id)
	e.until = w.moment(until)
	switch {
	case group != nil && e.group == 0:
		e.renewAt = never
		w.joinLocked(id, e, group)
	case group == nil && (e.group != 0 || fresh):
		w.leaveLocked(e)
		e.renewAt = w.now() + int64(l.Interval())
	}
	w.planLocked(id, e)
}

// Drop ends that.
func (w *Watchdog[L]) Drop(l L) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked(l)
}

func (w *Watchdog[L]) dropLocked(l L) {
	mark := l.Mark()
	id := uint32(*mark)
	if id == 0 {
		return
	}
	*mark = 0
	e := w.entries.at(id)
	w.unlinkLocked(e)
	w.leaveLocked(e)
	w.entries.remove(id)
}

// Hurry renews leases now, as fast as the store answers if there are many. One whose renewal is under way is renewed once
// more after it.
func (w *Watchdog[L]) Hurry(ls []L) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range ls {
		if id := uint32(*l.Mark()); id != 0 {
			w.hurryLocked(id, w.entries.at(id))
		}
	}
}

func (w *Watchdog[L]) hurryLocked(id uint32, e *entry[L]) {
	switch {
	case e.busy:
		e.again = true
	case !e.ready:
		e.ready = true
		w.ready = append(w.ready, id)
		w.wakeLocked(0)
	}
}

// Heard begins a round of the group with this mark, after a sign of life.
func (w *Watchdog[L]) Heard(mark *lock.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := uint32(*mark)
	if n == 0 {
		return
	}
	g := w.groups[n]
	g.next, g.end, g.heard = 0, 0, true
	w.roundLocked(n, g, w.now())
}

// planLocked has an entry looked at when something is to be done for it: its renewal or, if that is under way or its
// group's, the end of its validity.
func (w *Watchdog[L]) planLocked(id uint32, e *entry[L]) {
	at := e.until
	if !e.busy {
		at = min(at, e.renewAt)
	}
	w.lookAtLocked(id, e, at)
}

// wakeLocked has the loop look at a time, unless it does so anyway.
func (w *Watchdog[L]) wakeLocked(at moment) {
	if at >= w.wakeAt {
		return
	}
	w.wakeAt = at
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog[L]) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.turn()
		w.renew(w.ask(w.due()))
		timer.Reset(w.sleep())
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// turn opens the wheel's slots that have begun.
func (w *Watchdog[L]) turn() {
	for done := false; !done; {
		w.mu.Lock()
		done = w.turnLocked(w.now())
		w.mu.Unlock()
	}
}

// sleep says how long the loop may sleep.
func (w *Watchdog[L]) sleep() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.wakeAt = min(now+int64(time.Hour), w.wheel.near.first(), w.wheel.nextSlot(), w.rounds.first())
	if len(w.ready) > 0 && w.hurried < maxHurried {
		w.wakeAt = now
	}
	return max(time.Duration(w.wakeAt-now), 0)
}
