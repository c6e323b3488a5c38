package broker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// ear is how a driver sleeps. It listens to its name from the first sleep on.
type ear struct {
	b    *Broker
	q    *queue
	kind lock.Kind // of what it listens to
	stop func()
	live *atomic.Bool          // the store confirmed that it is listened to
	own  map[lock.Owner]func() // ends listening to what is told to these fair waiters only
}

// sleep returns when the name may be free: after pause, when its release is heard, when listening begins or was
// interrupted, or when nobody waits any more.
func (e *ear) sleep(k lock.Kind, next []lock.Owner, pause time.Duration) {
	e.attend(next)
	if e.stop == nil || e.kind != k {
		e.close()
		e.listen(k)
	}
	if !e.live.Load() && pause > blindPollInterval {
		pause = blindPollInterval
		e.b.tryWithin(e.q, pause)
	}
	e.rest(pause)
}

func (e *ear) listen(k lock.Kind) {
	live := new(atomic.Bool)
	e.kind, e.live = k, live
	e.stop = e.b.store.Listen(e.q.name, k, func(n lock.Notice) {
		if n.What == lock.NoticeListening || n.What == lock.NoticeDeaf {
			live.Store(n.What == lock.NoticeListening)
		}
		e.b.heard(e.q, n)
	})
}

// attend listens to what other programs tell the next fair waiters, and to nothing for others any more.
func (e *ear) attend(next []lock.Owner) {
	for o, stop := range e.own {
		if !slices.Contains(next, o) {
			stop()
			delete(e.own, o)
		}
	}
	for _, o := range next {
		if e.own[o] != nil {
			continue
		}
		if e.own == nil {
			e.own = make(map[lock.Owner]func())
		}
		e.own[o] = e.b.store.ListenTurn(e.q.name, o, func(n lock.Notice) { e.b.heardTurn(e.q, o, n) })
	}
}

// heardTurn has a queue try again if one of its waiters may be meant. What was told before it could be heard was told to
// the one that was the next one.
func (b *Broker) heardTurn(q *queue, o lock.Owner, n lock.Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n.What {
	case lock.NoticeListening:
		if w := q.headLocked(); w != nil && w.claim.Owner == o {
			q.hurryLocked()
		}
	case lock.NoticeReleased:
		if q.meantLocked(n) {
			q.hurryLocked()
		}
	default: // the driver's own listening tells of interruptions
	}
}

// rest is sleep without listening.
func (e *ear) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-e.q.wake:
		e.b.metrics.wakeups.WithLabelValues("push").Inc()
	case <-timer.C:
		e.b.metrics.wakeups.WithLabelValues("timer").Inc()
	case <-e.b.ctx.Done():
	}
}

func (e *ear) close() {
	if e.stop != nil {
		e.stop()
	}
}

// end is close, and of what is told to single waiters as well.
func (e *ear) end() {
	e.attend(nil)
	e.close()
}

// heard has a queue try again if a notice concerns it.
func (b *Broker) heard(q *queue, n lock.Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !q.meantLocked(n) {
		return
	}
	within := n.After + time.Millisecond
	switch n.What {
	case lock.NoticeTurn:
	case lock.NoticeDeaf:
		within = blindPollInterval
	default:
		q.hurryLocked()
		return
	}
	switch now := time.Now(); {
	case !q.tryAt.After(now): // an attempt may be under way, and its refusal older than this notice: another one follows
		q.hurryLocked()
	case now.Add(within).Before(q.tryAt):
		q.tryAt = now.Add(within)
		q.signal()
	}
}

// tryWithin bounds the time to the next attempt.
func (b *Broker) tryWithin(q *queue, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := time.Now().Add(d); at.Before(q.tryAt) {
		q.tryAt = at
	}
}

// backoff is the pause after the n-th failure in a row.
func backoff(n int) time.Duration {
	return min(retryPause<<min(n-1, 10), maxRetryPause)
}

// pause sleeps, but not longer than the broker lives.
func (b *Broker) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
	}
}
