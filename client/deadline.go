package client

import (
	"container/heap"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// instant is a time on the monotonic clock: nanoseconds since the Client was made. Wall clocks play no role.
type instant int64

// heartbeats remembers when the last heartbeats were sent, because what the server tells about validity counts from
// there. Its zero value plus opened is ready for use.
type heartbeats struct {
	opened instant // when Open was sent
	last   uint64  // the newest sent_id, 0 before the first
	sent   [64]instant
}

// next notes a heartbeat that is about to be sent and returns its sent_id.
func (h *heartbeats) next(now instant) uint64 {
	h.last++
	h.sent[h.last%uint64(len(h.sent))] = now
	return h.last
}

// at is when a heartbeat was sent, or an earlier time if that is not known: a deadline that counts from too early a
// time is too early, which is safe.
func (h *heartbeats) at(id uint64) instant {
	if id == 0 || id > h.last || h.last-id >= uint64(len(h.sent)) {
		return h.opened
	}
	return h.sent[id%uint64(len(h.sent))]
}

// deadline is when a validity ends.
//
//	deadline = time at which the anchor was sent + anchor_age + remaining
//
// The server had the anchor later than we sent it, so the true end is no earlier.
func (h *heartbeats) deadline(v *lockdv1.Validity) instant {
	return h.at(v.GetAnchor()) + instant(v.GetAnchorAge().AsDuration()+v.GetRemaining().AsDuration())
}

// deadlines orders locks by the deadline they had when they were last looked at. A deadline that moves later is noticed
// when its turn comes; one that moves earlier is put into its place at once.
type deadlines []*Lock

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].queuedAt < d[j].queuedAt }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push is for package heap.
func (d *deadlines) Push(x any) {
	l := x.(*Lock)
	l.index = len(*d)
	*d = append(*d, l)
}

// Pop is for package heap.
func (d *deadlines) Pop() any {
	old := *d
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	l.index = -1
	return l
}

func (d *deadlines) add(l *Lock) {
	l.queuedAt = l.end()
	heap.Push(d, l)
}

func (d *deadlines) remove(l *Lock) {
	if l.index >= 0 {
		heap.Remove(d, l.index)
	}
}

// advance puts a lock whose deadline moved earlier into its place.
func (d *deadlines) advance(l *Lock) {
	if l.index >= 0 {
		l.queuedAt = l.end()
		heap.Fix(d, l.index)
	}
}

// due takes out one lock whose deadline has passed. If there is none, it says when to ask again; ok is false if
// there are no locks at all.
func (d *deadlines) due(now instant) (l *Lock, again instant, ok bool) {
	for len(*d) > 0 {
		l := (*d)[0]
		switch {
		case l.queuedAt > now:
			return nil, l.queuedAt, true
		case l.end() <= now:
			heap.Pop(d)
			return l, 0, true
		}
		l.queuedAt = l.end()
		heap.Fix(d, 0)
	}
	return nil, 0, false
}

// alarm is the one timer of a session for the deadlines of all its locks. It may ring early, never late. The owner's
// mutex guards it.
type alarm struct {
	ring  func()
	timer *time.Timer
	at    instant // when it rings, 0 if it is not set
}

// set has the alarm ring at a time if it would not ring earlier anyway.
func (a *alarm) set(now, at instant) {
	if a.at != 0 && a.at <= at {
		return
	}
	a.at = at
	wait := time.Duration(max(at-now, 0))
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.ring)
		return
	}
	a.timer.Reset(wait)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// bell is the one timer of a session for the answers that are waited for. It rings for all who wait, also for those
// whose time is not over: they ask again.
type bell struct {
	mu    sync.Mutex // guards the fields below
	alarm alarm
	rung  chan struct{} // closed and replaced when it rings; nil if nobody waits
}

// by is closed at a time, or earlier.
func (b *bell) by(now, at instant) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	b.alarm.set(now, at)
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarm.at = 0
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

func (b *bell) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarm.stop()
}
