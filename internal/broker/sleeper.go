package broker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// sleeper is how a driver sleeps. It listens to its name from the first sleep on.
type sleeper struct {
	b    *Broker
	q    *queue
	kind lock.Kind // of what it listens to
	stop func()
	live *atomic.Bool          // the store confirmed that it is listened to
	own  map[lock.Owner]func() // ends listening to what is told to these fair waiters only
}

// sleep returns when the name may be free: after pause, when its release is heard, when listening begins or was
// interrupted, or when nobody waits any more.
func (s *sleeper) sleep(k lock.Kind, next []lock.Owner, pause time.Duration) {
	s.attend(next)
	if s.stop == nil || s.kind != k {
		s.close()
		s.listen(k)
	}
	if !s.live.Load() && pause > blindPollInterval {
		pause = blindPollInterval
		s.b.tryWithin(s.q, pause)
	}
	s.rest(pause)
}

func (s *sleeper) listen(k lock.Kind) {
	live := new(atomic.Bool)
	s.kind, s.live = k, live
	s.stop = s.b.store.Listen(s.q.name, k, func(n lock.Notice) {
		if n.What == lock.NoticeListening || n.What == lock.NoticeDeaf {
			live.Store(n.What == lock.NoticeListening)
		}
		s.b.heard(s.q, n)
	})
}

// attend listens to what other programs tell the next fair waiters, and to nothing for others any more.
func (s *sleeper) attend(next []lock.Owner) {
	for o, stop := range s.own {
		if !slices.Contains(next, o) {
			stop()
			delete(s.own, o)
		}
	}
	for _, o := range next {
		if s.own[o] != nil {
			continue
		}
		if s.own == nil {
			s.own = make(map[lock.Owner]func())
		}
		s.own[o] = s.b.store.ListenTurn(s.q.name, o, func(n lock.Notice) { s.b.heardTurn(s.q, o, n) })
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
			q.wakeLocked()
		}
	case lock.NoticeReleased:
		if q.meantLocked(n) {
			q.wakeLocked()
		}
	default: // the driver's own listening tells of interruptions
	}
}

// rest is sleep without listening.
func (s *sleeper) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-s.q.wake:
		s.b.metrics.wakeups.WithLabelValues("push").Inc()
	case <-timer.C:
		s.b.metrics.wakeups.WithLabelValues("timer").Inc()
	case <-s.b.ctx.Done():
	}
}

func (s *sleeper) close() {
	if s.stop != nil {
		s.stop()
	}
}

// end is close, and of what is told to single waiters as well.
func (s *sleeper) end() {
	s.attend(nil)
	s.close()
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
		q.wakeLocked()
		return
	}
	switch now := time.Now(); {
	case !q.tryAt.After(now): // an attempt may be under way, and its refusal older than this notice: another one follows
		q.wakeLocked()
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
