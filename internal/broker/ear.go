package broker

import (
	"sync/atomic"
	"time"
)

// ear is how a driver sleeps. It listens to its name from the first sleep on.
type ear struct {
	b    *Broker
	q    *queue
	stop func()
	live atomic.Bool // the store confirmed that it is listened to
}

// sleep returns when the name may be free: after pause, when its release is heard, when listening begins or was
// interrupted, or when nobody waits any more.
func (e *ear) sleep(pause time.Duration) {
	if e.stop == nil {
		select {
		case <-e.q.wake:
		default:
		}
		e.stop = e.b.store.Listen(e.q.name, Exclusive, e.hear)
	}
	if !e.live.Load() {
		pause = min(pause, blindPollInterval)
	}
	e.rest(pause)
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

func (e *ear) hear(n Notice) {
	if n.What == NoticeListening {
		e.live.Store(true)
	}
	e.q.signal()
}

func (e *ear) close() {
	if e.stop != nil {
		e.stop()
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
