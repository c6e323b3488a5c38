package broker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
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
func (s *sleeper) sleep(t arbiter.Turn[waiter]) {
	s.attend(t.Next)
	if s.stop == nil || s.kind != t.Kind {
		s.close()
		s.listen(t.Kind)
	}
	pause := t.Pause
	if !s.live.Load() && pause > arbiter.BlindPause {
		pause = arbiter.BlindPause
		s.b.tryWithin(s.q, pause)
	}
	s.rest(pause)
}

func (s *sleeper) listen(k lock.Kind) {
	live := new(atomic.Bool)
	s.kind, s.live = k, live
	s.stop = s.b.store.Listen(s.q.Name(), k, func(n lock.Notice) {
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
		s.own[o] = s.b.store.ListenTurn(s.q.Name(), o, func(n lock.Notice) { s.b.heardTurn(s.q, o, n) })
	}
}

// heardTurn tells a queue what was told one of its waiters.
func (b *Broker) heardTurn(q *queue, o lock.Owner, n lock.Notice) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.HeardTurn(o, n)
	q.signalLocked()
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

// heard tells a queue of a notice of its name.
func (b *Broker) heard(q *queue, n lock.Notice) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.Heard(n, time.Now())
	q.signalLocked()
}

// tryWithin bounds the time to the next attempt.
func (b *Broker) tryWithin(q *queue, d time.Duration) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.TryWithin(d, time.Now())
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
