package broker

import (
	"sync/atomic"
	"time"
)

// ear is how a driver sleeps. It listens to its name from the first sleep on.
type ear struct {
	b    *Broker
	q    *queue
	kind Kind // of what it listens to
	stop func()
	live *atomic.Bool // the store confirmed that it is listened to
}

// sleep returns when the name may be free: after pause, when its release is heard, when listening begins or was
// interrupted, or when nobody waits any more.
func (e *ear) sleep(k Kind, pause time.Duration) {
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

func (e *ear) listen(k Kind) {
	live := new(atomic.Bool)
	e.kind, e.live = k, live
	e.stop = e.b.store.Listen(e.q.name, k, func(n Notice) {
		if n.What == NoticeListening {
			live.Store(true)
		}
		e.b.heard(e.q, n)
	})
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

// heard has a queue try again if a notice concerns it.
func (b *Broker) heard(q *queue, n Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !q.meantLocked(n) {
		return
	}
	if n.What != NoticeTurn {
		q.hurryLocked()
		return
	}
	if at := time.Now().Add(n.After + time.Millisecond); at.Before(q.tryAt) {
		q.tryAt = at
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
