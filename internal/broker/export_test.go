package broker

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Residue describes what a broker still keeps, "" if nothing. A driver or a compensation at its end may need a moment.
func (b *Broker) Residue() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := ""
	for name, q := range b.queues {
		s += fmt.Sprintf("queue %q: held %t, taken over %t, driving %t, %d waiters\n", name, q.holder != nil,
			q.holder == takenOver, q.driving, q.waiters.len())
	}
	if len(b.own)+b.bounded.Len() > 0 {
		s += fmt.Sprintf("%d lease ids, %d bounded requests\n", len(b.own), b.bounded.Len())
	}
	if b.desk.Slots() != len(b.sessions) {
		s += fmt.Sprintf("%d slots for %d sessions\n", b.desk.Slots(), len(b.sessions))
	}
	if len(b.sessions)+b.watching.Names()+b.taking > 0 {
		s += fmt.Sprintf("%d sessions, %d watches, %d goroutines that take\n", len(b.sessions), b.watching.Names(), b.taking)
	}
	return s
}

// Residue describes what an ended session still keeps, "" if nothing.
func (s *Session) Residue() string {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if len(s.list)+len(s.waiting)+s.asked+s.weight+len(s.watched)+s.undoing+s.ops+s.suspects == 0 {
		return ""
	}
	return fmt.Sprintf("%d leases, %d waiters for %d locks, weight %d, %d watches, %d unsettled, %d operations, %d suspects", len(s.list),
		len(s.waiting), s.asked, s.weight, len(s.watched), s.undoing, s.ops, s.suspects)
}

// RequestIDs is requestIDs for tests.
type RequestIDs struct{ requestIDs }

// Use is use.
func (r *RequestIDs) Use(id uint64) bool { return r.use(id) }

// Trace is what every event of a session passes.
func Trace(s *Session, e Event) { s.traceLocked(e) }

// Pieces is how often work on many things gave the mutex away so far.
func (b *Broker) Pieces() int { return b.count(func() int { return int(b.pieces) }) }

// FairLine is a queue of fair waiters whose places are kept by hand.
type FairLine struct {
	q  *queue
	ws []*waiter
}

// NewFairLine is such a queue.
func NewFairLine(n int) *FairLine {
	l := &FairLine{q: &queue{name: "job"}}
	for i := range n {
		w := &waiter{claim: lock.Claim{Name: "job", Kind: lock.Fair, Owner: lock.Owner(fmt.Sprint(i))}}
		l.q.pushLocked(w)
		l.q.placeLocked(w)
		l.ws = append(l.ws, w)
	}
	return l
}

// Begin begins a round, and returns the waiters of its first piece.
func (l *FairLine) Begin() []lock.Owner {
	l.q.places.round.at, l.q.places.keepAt = nil, time.Time{}
	return l.Go()
}

// Go returns the next piece of the round, empty at its end.
func (l *FairLine) Go() (owners []lock.Owner) {
	for _, w := range l.q.places.dueLocked(l.q, time.Now(), true) {
		owners = append(owners, w.claim.Owner)
	}
	return owners
}

// ToFront makes a waiter the first one, and Leave takes one out.
func (l *FairLine) ToFront(i int) { l.q.toFrontLocked(l.ws[i]) }

// Leave takes a waiter out.
func (l *FairLine) Leave(i int) {
	w := l.ws[i]
	l.q.unlinkLocked(w)
	delete(l.q.places.of, w.claim.Owner)
}

// Probed is what follows a probe of the store.
func (b *Broker) Probed(identity string, err error) { b.probed(identity, err) }

// Shared are the mutexes that all names and sessions share.
func (b *Broker) Shared() map[string]*sync.Mutex { return map[string]*sync.Mutex{"Broker.mu": &b.mu} }

// Soonest is what a heartbeat would be answered with, and the names of the auto leases with the ends of their validity. One
// that is doubtful is not known to be renewed, because a repeated release of one of its holds may come late.
func (s *Session) Soonest() (told time.Time, auto map[string]time.Time, doubtful bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	auto = make(map[string]time.Time)
	for _, l := range s.list {
		if !l.auto {
			continue
		}
		if at, there := auto[l.name]; !there || l.autoUntilLocked().Before(at) {
			auto[l.name] = l.autoUntilLocked()
		}
		doubtful = doubtful || l.lateReturn && l.autoLevel() > 1
	}
	return s.soonestLocked(), auto, doubtful
}
