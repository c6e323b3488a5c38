package broker

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Residue describes what a broker still keeps, "" if nothing. A driver, or an undo, may need a moment to end.
func (b *Broker) Residue() (s string) {
	for i := range b.shards {
		s += b.shards[i].residue()
	}
	quiet := b.taking.Load() == 0
	if b.tenants.Slots() != b.sessions.Len() {
		s += fmt.Sprintf("%d slots for %d sessions\n", b.tenants.Slots(), b.sessions.Len())
	}
	if b.sessions.Len()+b.watching.Names() > 0 || !quiet {
		s += fmt.Sprintf("%d sessions, %d watches, quiet: %t\n", b.sessions.Len(), b.watching.Names(), quiet)
	}
	return s
}

func (h *shard) residue() (s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, q := range h.queues {
		s += fmt.Sprintf("queue %q: held %t, %d sharers, idle %t, taken over %t, driving %t, %d waiters\n", name,
			q.holder != nil,
			len(q.sharers), q.Idle(), q.Passing(), q.driving, q.Len())
	}
	if len(h.repeated)+len(h.byHolder)+len(h.leaving)+h.leases.Len() > 0 {
		s += fmt.Sprintf("%d lease ids, %d holders, %d places being left, %d leases\n", len(h.repeated), len(h.byHolder),
			len(h.leaving), h.leases.Len())
	}
	return s
}

// Residue describes what an ended session still keeps, "" if nothing.
func (s *Session) Residue() string {
	info := s.Info()
	info.Age, info.Silence = 0, 0
	if info == (session.Info{}) {
		return ""
	}
	return fmt.Sprintf("%+v", info)
}

// Trace logs an event, as for every event that a session is told.
func Trace(s *Session, e session.Event) { s.Session.Trace(e) }

// Probed is what follows a probe of the store.
func (b *Broker) Probed(identity string, err error) { b.probed(identity, err) }

// Shared are the mutexes that the requests of this session share: with all others, with those for names of the same
// shard, and with those of the session.
func (s *Session) Shared() map[string]*sync.Mutex {
	mu := func(of any) *sync.Mutex {
		return (*sync.Mutex)(reflect.ValueOf(of).Elem().FieldByName("mu").Addr().UnsafePointer())
	}
	return map[string]*sync.Mutex{
		"Registry.mu": mu(s.b.sessions), "shard.mu": &s.b.shards[0].mu, "Session.mu": mu(s.Session),
	}
}

// Mutex is the mutex of a name.
func (b *Broker) Mutex(name string) *sync.Mutex { return &b.shardOf(name).mu }

// Soonest is what a heartbeat would be answered with, and the names of the auto leases with the ends of their validity.
func (s *Session) Soonest() (told time.Time, auto map[string]time.Time) {
	auto = make(map[string]time.Time)
	for _, held := range s.Leases() {
		l := held.(*Lease)
		l.lock()
		if at, there := auto[l.name]; l.auto && (!there || l.until.Before(at)) {
			auto[l.name] = l.until
		}
		l.unlock()
	}
	return s.Session.Soonest(), auto
}

// AnswerLate is the answer to a unary request whose validity is over before the answer is made.
func (b *Broker) AnswerLate(req request.Once, ownID bool) error {
	w := b.newOnceWaiter(req, ownID)
	_, err := b.onceLease(w, req, onceAnswer{fence: 1, until: time.Now()})
	return err
}

// Doubts are the names that a broker remembers to have been freed by force, "" if there are none.
func (b *Broker) Doubts() (s string) {
	b.eachShard(func(h *shard) {
		for name := range h.doubted {
			s += fmt.Sprintf("doubt of %q\n", name)
		}
	})
	return s
}

// RefuseFollowers refuses the tries that follow those who wait for a name, and says how many follow, and how many are
// answered before anybody else gets the mutex.
func (b *Broker) RefuseFollowers(name string) (all, atOnce int) {
	h := b.shardOf(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[name]
	tries := q.Overruled(q.Head(), q.Begun())
	b.refuseEachLocked(tries, q.heldHereLocked)
	for _, t := range tries {
		if t.Answered() {
			atOnce++
		}
	}
	return len(tries), atOnce
}
