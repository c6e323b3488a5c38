// Package watchdog keeps leases alive and ends those that are lost.
//
// # What it promises
//
// A lease that can be renewed is renewed at every Interval of its own, and ended no later than at the end of its
// validity if it cannot. Renewals that are due at about the same time share store calls; calls are under way side by
// side, so a slow one delays its own leases only. A renewal that failed is tried again soon.
//
// # What it does not promise
//
// It does not judge whether a client lives: that is in the TTL that broker.Lease asks for.
//
// # How it works
//
// One loop and one heap, ordered by what is to be done next for a lease: its renewal or its end. There is no
// goroutine and no timer for a lease. While a renewal is under way the heap holds the lease's end only.
package watchdog

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// batchWindow is the part of an interval by which a renewal may come early to share a call.
	batchWindow = 20
	// retries is the part of an interval after which a failed renewal is tried again.
	retries = 10
	// maxBatch bounds the leases of one call. Many calls may be under way.
	maxBatch = 1000
	// callTimeout bounds a call, besides the store's own bounds.
	callTimeout = 5 * time.Second
)

// Watchdog implements broker.Keeper.
type Watchdog struct {
	store   lock.Store
	log     *zap.Logger
	metrics *metrics
	ctx     context.Context
	stop    context.CancelFunc
	wake    chan struct{} // size 1
	wg      sync.WaitGroup

	mu    sync.Mutex // guards the fields below and all entries; Broker.mu may be held when it is taken, never after
	heap  entries
	known map[*broker.Lease]*entry
	// wakeAt is when the loop looks next. Locks that come and go in between do not wake it.
	wakeAt time.Time
}

// New starts a watchdog. Close ends it.
func New(store lock.Store, log *zap.Logger, reg prometheus.Registerer) *Watchdog {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watchdog{
		store: store, log: log.Named("watchdog"), metrics: newMetrics(reg),
		ctx: ctx, stop: stop, wake: make(chan struct{}, 1), known: make(map[*broker.Lease]*entry),
	}
	w.wg.Go(w.loop)
	return w
}

// Close stops all renewals and waits for those under way.
func (w *Watchdog) Close() {
	w.stop()
	w.wg.Wait()
}

// Keep begins to keep a lease; see broker.Keeper.
func (w *Watchdog) Keep(l *broker.Lease, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known[l]
	if e == nil {
		e = &entry{lease: l, interval: l.Interval(), index: -1, renewAt: time.Now().Add(l.Interval())}
		w.known[l] = e
	}
	e.until = until
	w.planLocked(e)
}

// Drop ends that.
func (w *Watchdog) Drop(l *broker.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.known[l]; e != nil {
		delete(w.known, l)
		if e.index >= 0 {
			heap.Remove(&w.heap, e.index)
		}
	}
}

// Hurry renews leases after a delay. One that has not much longer to live keeps its time if that is earlier. One whose
// renewal is under way is renewed once more after it.
func (w *Watchdog) Hurry(ls []*broker.Lease, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(delay)
	for _, l := range ls {
		e := w.known[l]
		switch {
		case e == nil:
		case e.busy:
			e.again = true
		case at.Before(e.renewAt) || at.Add(e.interval).Before(e.until):
			e.renewAt = at
			w.planLocked(e)
		}
	}
}

// scheduleLocked puts an entry into the heap, or moves it there.
func (w *Watchdog) scheduleLocked(e *entry, at time.Time) {
	e.at = at
	if e.index < 0 {
		heap.Push(&w.heap, e)
	} else {
		heap.Fix(&w.heap, e.index)
	}
	if at.Before(w.wakeAt) {
		w.wakeAt = at
		w.signal()
	}
}

func (w *Watchdog) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var batch batch
		for _, e := range w.due(time.Now()) {
			if r, renew := w.handle(e); renew {
				batch.entries = append(batch.entries, e)
				batch.renewals = append(batch.renewals, r)
			}
		}
		w.renewAll(batch)
		timer.Reset(w.sleep())
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// due takes what is to be handled now from the heap. Renewals that come soon are taken along.
func (w *Watchdog) due(now time.Time) (due []*entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.heap) > 0 && len(due) < maxBatch {
		e := w.heap[0]
		early := time.Duration(0)
		if len(due) > 0 && !e.busy {
			early = e.interval / batchWindow
		}
		if e.at.After(now.Add(early)) {
			break
		}
		heap.Pop(&w.heap)
		due = append(due, e)
	}
	return due
}

// sleep says how long the loop may sleep.
func (w *Watchdog) sleep() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.wakeAt = now.Add(time.Hour)
	if len(w.heap) > 0 {
		w.wakeAt = w.heap[0].at
	}
	return max(w.wakeAt.Sub(now), 0)
}

// batch is what one call renews.
type batch struct {
	entries  []*entry
	renewals []lock.Renewal
}

// handle ends a lease whose validity is over, and says whether and how it is to be renewed now.
func (w *Watchdog) handle(e *entry) (r lock.Renewal, renew bool) {
	now := time.Now()
	until := e.lease.Until()
	if !until.After(now) {
		w.Drop(e.lease)
		e.lease.Lose(lock.LostExpired)
		return r, false
	}
	r, held := e.lease.Renewal(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[e.lease] != e || !held {
		return r, false
	}
	e.until = until
	if !e.busy && !e.renewAt.After(now.Add(e.interval/batchWindow)) {
		e.busy, e.start = true, now
		renew = true
		w.metrics.lateness.Observe(now.Sub(e.renewAt).Seconds())
		w.metrics.remaining.Observe(until.Sub(now).Seconds() / (e.interval.Seconds() * 3))
	}
	w.planLocked(e)
	return r, renew
}

// planLocked schedules what comes next for an entry: its renewal or, if that is under way, the end of its validity.
func (w *Watchdog) planLocked(e *entry) {
	at := e.until
	if !e.busy && e.renewAt.Before(at) {
		at = e.renewAt
	}
	w.scheduleLocked(e, at)
}

// renewAll sends renewals, in a goroutine of their own.
func (w *Watchdog) renewAll(due batch) {
	if len(due.entries) == 0 {
		return
	}
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
		defer cancel()
		w.store.Renew(ctx, due.renewals, func(i int, err error) {
			w.renewed(due.entries[i], due.renewals[i], err)
		})
	})
}

// renewed takes note of the outcome of one renewal.
func (w *Watchdog) renewed(e *entry, r lock.Renewal, err error) {
	var gone *lock.GoneError
	switch {
	case err == nil:
		w.metrics.renewals.WithLabelValues(resultRenewed).Inc()
		e.lease.Renewed(e.start, r)
	case errors.As(err, &gone) && !e.lease.Reduced(e.start):
		w.metrics.renewals.WithLabelValues(resultGone).Inc()
		w.Drop(e.lease)
		e.lease.Lose(gone.Reason)
		return
	default:
		w.metrics.renewals.WithLabelValues(resultFailed).Inc()
		w.log.Debug("renewal failed", zap.String(observe.KeyName, e.lease.Name()), zap.Error(err))
	}
	until := e.lease.Until()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[e.lease] != e {
		return
	}
	pause := e.interval
	if err != nil {
		pause = e.interval / retries
	}
	if e.again {
		pause = 0
	}
	e.busy, e.again, e.until = false, false, until
	e.renewAt = e.start.Add(pause)
	w.planLocked(e)
}
