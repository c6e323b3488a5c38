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
	live *atomic.Bool          // the store confirmed the listening
	own  map[lock.Owner]func() // ends listening to what is told to these fair waiters only
}

// sleep returns when the name may be free: after pause, when its release is heard, when listening begins or was
// interrupted, or when nobody waits any more.
func (s *sleeper) sleep(t arbiter.Step[waiter]) {
	s.attend(t.Next)
	if s.stop == nil || s.kind != t.Kind {
		s.close()
		s.listen(t.Kind)
	}
	if !s.live.Load() && t.Pause > arbiter.BlindPause {
		t.Pause = arbiter.BlindPause
		s.q.told(func() { s.q.TryWithin(t.Pause, time.Now()) })
	}
	s.rest(t.Pause)
}

func (s *sleeper) listen(k lock.Kind) {
	q, live := s.q, new(atomic.Bool)
	s.kind, s.live = k, live
	s.stop = s.b.store.Listen(q.Name(), k, func(n lock.Notice) {
		if n.What == lock.NoticeListening || n.What == lock.NoticeDeaf {
			live.Store(n.What == lock.NoticeListening)
		}
		q.told(func() { q.Heard(n, time.Now()) })
	})
}

// told tells a queue something, and signals its driver.
func (q *queue) told(something func()) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	something()
	q.signalLocked()
}

// attend listens to what other programs tell the fair waiters in next, and stops listening for all others.
func (s *sleeper) attend(next []lock.Owner) {
	for o, stop := range s.own {
		if !slices.Contains(next, o) {
			stop()
			delete(s.own, o)
		}
	}
	for _, o := range next {
		if s.own[o] == nil {
			s.own[o] = s.b.store.ListenTurn(s.q.Name(), o, func(n lock.Notice) {
				s.q.told(func() { s.q.HeardTurn(o, n) })
			})
		}
	}
}

// rest is sleep without listening.
func (s *sleeper) rest(pause time.Duration) {
	select {
	case <-s.q.wake:
		s.b.metrics.wakeups.WithLabelValues("push").Inc()
	case <-time.After(pause):
		s.b.metrics.wakeups.WithLabelValues("timer").Inc()
	case <-s.b.ctx.Done():
	}
}

func (s *sleeper) close() {
	if s.stop != nil {
		s.stop()
	}
}

// end is close, and stops listening for single waiters as well.
func (s *sleeper) end() {
	s.attend(nil)
	s.close()
}
