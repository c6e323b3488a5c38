package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// driveLocked sees to it that what a queue asks for is done.
//
// An attempt that may be made now needs no goroutine. For all else it starts the driver, which sleeps until the next
// attempt, and keeps the places of fair waiters.
func (b *Broker) driveLocked(q *queue) {
	if q.driving {
		q.signalLocked()
		return
	}
	if q.shard.closed || q.Head() == nil {
		return
	}
	now := time.Now()
	switch t := q.Start(now); t.Do {
	case arbiter.Stop:
	case arbiter.Ask:
		b.startLocked(t.Ask.For, now)
	default:
		q.driving = true
		if q.wake == nil {
			q.wake = make(chan struct{}, 1)
		}
		q.Changed()
		b.goTaking(func() { b.drive(q) })
	}
}

// signalLocked has the driver find out what is to be done now, if that may have changed.
func (q *queue) signalLocked() {
	if !q.driving || !q.Changed() {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drive does what a queue asks for until nobody waits, or a session of this replica holds the name. While the head has
// to wait it listens to the name, and then asks once more, because the release may have come before the listening.
func (b *Broker) drive(q *queue) {
	sleep := sleeper{b: b, q: q, own: make(map[lock.Owner]func())}
	defer sleep.end()
	for {
		a, t := b.nextStep(q)
		switch t.Do {
		case arbiter.Stop:
			return
		case arbiter.Keep:
			b.enlist(q, t.Keep)
		case arbiter.Ask:
			a = b.attempt(b.ctx, a)
			w := t.Ask.For
			w.lock()
			b.concludeLocked(w, outcomeOf(a))
			w.unlock()
		case arbiter.Yield:
			lock.Pause(b.ctx, t.Pause)
		case arbiter.Rest:
			sleep.rest(t.Pause)
		case arbiter.Sleep:
			sleep.sleep(t)
		}
	}
}

// nextStep is what the driver of a queue does next, and the attempt if it is one.
func (b *Broker) nextStep(q *queue) (a attempt, t arbiter.Step[waiter]) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	now := time.Now()
	if !q.shard.closed {
		t = q.Next(now)
	}
	switch t.Do {
	case arbiter.Stop:
		q.driving = false
		q.dropIdleLocked()
	case arbiter.Ask:
		a = t.Ask.For.attemptLocked(now)
	default:
	}
	return a, t
}

// enlist has the store keep the places of waiters, and tells new ones their position.
func (b *Broker) enlist(q *queue, ws []*arbiter.Waiter[waiter]) {
	q.shard.mu.Lock()
	owners := q.Enlist(ws)
	q.shard.mu.Unlock()
	positions, err := b.store.Enlist(b.ctx, q.Name(), owners, arbiter.PlaceTime)
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil {
		q.NotEnlisted(time.Now())
		positions = make([]int, len(ws))
	}
	for i, w := range ws {
		position, leave := q.Enlisted(w, positions[i], err)
		if leave {
			b.leavePlaceLocked(w.For)
		}
		if position >= 0 {
			b.parkLocked(w.For, position)
		}
	}
}
