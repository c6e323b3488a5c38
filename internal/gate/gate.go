// Package gate lets requests of clients in as fast as the store takes them, and lets renewals go first.
//
// Requests wait here in pieces of up to 64. Until a piece is let in, nothing more is read from its client, so the
// client gets slower. Otherwise requests would wait for the store itself: one that waits there too long is refused, and
// until then it is in the way of others.
//
// Who has little waiting for the store does not wait here for those who have much: while the store has no room, each
// may have an even share of it.
package gate

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// most is how many requests wait for the store before others wait here. Batches are full with far fewer, and so
	// many are done in a tenth of a second by a store that is not in trouble.
	most = 512
	// LateBound is how late renewals may be before nobody is let in. It is much more than they are late in an ordinary
	// hurry, and little beside a TTL.
	LateBound = 250 * time.Millisecond
	// admitEvery is how often those are admitted who may enter, while somebody waits.
	admitEvery = 2 * time.Millisecond
	// atOnce is how many of those who wait are asked then, so that it costs little however many they are.
	atOnce = 512
)

// Store says how much waits for the store.
type Store interface {
	// Waiting is how many requests wait.
	Waiting() int
	// Share is how many of them a session has, and how many sessions have any.
	Share(session string) (its, all int)
}

// Gate is where requests wait. A nil Gate is always open.
type Gate struct {
	store   Store
	late    func() time.Duration
	waiting atomic.Int32

	mu       sync.Mutex // guards the field below
	visitors []*visitor
}

// visitor is who waits, with some requests.
type visitor struct {
	session  string
	requests int
	until    time.Time     // it waits for the store alone from then on, and not for renewals
	entered  chan struct{} // closed when it may enter
	left     bool          // it waits no more
}

// New makes a gate for a store. late tells how late renewals are.
func New(store Store, late func() time.Duration) *Gate {
	return &Gate{store: store, late: late}
}

// Shut says whether sessions with more than an even share of what waits for the store have to wait here.
func (g *Gate) Shut() bool {
	return g != nil && (g.waiting.Load() > 0 || g.late() > LateBound || g.store.Waiting() >= most)
}

// Stops says whether so many requests of a session have to wait here.
func (g *Gate) Stops(session string, requests int) bool {
	return g.Shut() && (g.late() > LateBound || !g.even(session, requests))
}

// even says whether a session has no more than an even share of the room before the store, with so many requests more.
func (g *Gate) even(session string, requests int) bool {
	its, all := g.store.Share(session)
	if its == 0 {
		all++
	}
	return its+requests <= max(most/max(all, 1), 1)
}

// Enter waits until so many requests may enter, the oldest first, or over is closed. After its patience it waits only
// for room before the store, and no longer for renewals; a third of that time later it enters in any case. Without
// patience it enters at once.
func (g *Gate) Enter(session string, requests int, patience time.Duration, over <-chan struct{}) {
	if patience <= 0 || !g.Stops(session, requests) {
		return
	}
	v := &visitor{session: session, requests: requests, until: time.Now().Add(patience), entered: make(chan struct{})}
	g.mu.Lock()
	g.visitors = append(g.visitors, v)
	if g.waiting.Add(1) == 1 {
		time.AfterFunc(admitEvery, g.admit)
	}
	g.mu.Unlock()
	select {
	case <-v.entered:
		return
	case <-time.After(patience * 4 / 3):
	case <-over:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v.left = true
}

// admit lets in who may enter, and does so again while others wait.
func (g *Gate) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	free, late, now := most-g.store.Waiting(), g.late() > LateBound, time.Now()
	some := min(len(g.visitors), atOnce)
	wait := g.visitors[:0]
	for _, v := range g.visitors[:some] {
		switch {
		case v.left:
		case late && now.Before(v.until), free <= 0 && !g.even(v.session, v.requests):
			wait = append(wait, v)
		default:
			free -= v.requests
			close(v.entered)
		}
	}
	wait = append(wait, g.visitors[some:]...)
	gone := len(g.visitors) - len(wait)
	clear(g.visitors[len(wait):])
	g.visitors = wait
	if g.waiting.Add(int32(-gone)) > 0 { //nolint:gosec // bounded by the streams
		time.AfterFunc(admitEvery, g.admit)
	} else {
		g.visitors = nil
	}
}
