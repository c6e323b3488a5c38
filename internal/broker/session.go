package broker

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/admission"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/session"
)

// OpenRequest begins a session.
type OpenRequest struct {
	Client session.Client
	// TTL is the wanted session TTL; 0 for the default.
	TTL time.Duration
	// ReleaseOnEnd releases the leases at once when the stream breaks, instead of letting them run out.
	ReleaseOnEnd bool
	// Slot is the one the client took when it came; nil to take one now.
	Slot *admission.Slot
}

// Session is one client's relation with this broker. Its methods do not block; each request is answered through the
// Outbox. A session ends by Goodbye, by End, or by itself when its client is silent or does not read.
type Session struct {
	*session.Session[*Lease, *waiter]
	b            *Broker
	slot         *admission.Slot
	releaseOnEnd bool
	farewell     *farewell // while its leases are released at its end
}

// Open begins a session.
func (b *Broker) Open(req OpenRequest) (*Session, error) {
	ttl, err := b.rules.Open(req.Client, req.TTL)
	if err != nil {
		return nil, err
	}
	limits := b.cfg.Limits
	s := &Session{b: b, releaseOnEnd: req.ReleaseOnEnd}
	s.Session = session.New[*Lease, *waiter](session.Config{
		ID: newID(), Client: req.Client, TTL: ttl, Port: port{s},
		Limits: session.Limits{
			Locks: limits.LocksPerSession, Waiters: limits.WaitersPerSession, Watches: limits.WatchesPerSession,
		},
	})
	if err := b.join(s, req.Slot); err != nil {
		return nil, err
	}
	b.log.Debug("session opened", zap.String(observe.KeySession, s.ID()),
		zap.String(observe.KeyClient, s.Client().Name), zap.String(observe.KeyPeer, s.Client().Peer))
	return s, nil
}

// join makes a session one of the broker's.
func (b *Broker) join(s *Session, slot *admission.Slot) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return session.ErrDraining
	}
	if s.slot, err = b.door.Begin(slot, s.Client().Peer); err != nil {
		return err
	}
	if s.slot == nil { // its stream is over
		return session.ErrNotOpen
	}
	b.sessions[s.ID()] = s
	b.order.ReplaceOrInsert(sessionAt{s.ID(), s})
	s.Start()
	return nil
}

// port is what a session asks of its broker.
type port struct{ s *Session }

// Heard implements session.Port.
func (p port) Heard(leases *lock.Mark) { p.s.b.keeper.Heard(leases) }

// Silent implements session.Port.
func (p port) Silent(cause error) { p.s.End(cause) }

// Full implements session.Port.
func (p port) Full() { p.s.End(session.ErrBacklog) }

// Safe implements session.Port.
func (p port) Safe() bool { return p.s.b.safe.Load() }

// Told implements session.Port.
func (p port) Told(e session.Event) { p.s.trace(e) }

// Denied implements session.Port.
func (p port) Denied(subject string, limit int) error { return p.s.b.metrics.denied(subject, limit) }

// Go implements session.Port.
func (p port) Go(run func()) { p.s.b.wg.Go(run) }

// Goodbye releases all and ends the session.
func (s *Session) Goodbye() { s.end(nil, true) }

// End ends a session whose stream broke. Its waiters are withdrawn at once; its leases run out by themselves unless
// the session asked for their release.
func (s *Session) End(cause error) { s.end(cause, s.releaseOnEnd) }

// end ends a session, and takes from it what it has, each thing with the mutex of its name.
func (s *Session) end(cause error, release bool) {
	left, first := s.Retire(cause, release)
	if !first {
		return
	}
	s.b.part(s, cause, left.Leases)
	for _, name := range left.Watched {
		s.unwatch(name)
	}
	for _, w := range left.Waiting {
		s.b.forget(w)
	}
	if release {
		s.releaseAll(left.Leases)
	} else {
		for _, l := range slices.Backward(left.Leases) {
			s.leave(l)
		}
	}
	s.b.log.Debug("session ended", zap.String(observe.KeySession, s.ID()), zap.NamedError(observe.KeyCause, cause))
	s.LeaveOp()
}

// part takes a session that ends from those of the broker.
func (b *Broker) part(s *Session, cause error, leases []*Lease) {
	s.slot.End()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s.ID())
	b.order.Delete(sessionAt{id: s.ID()})
	if cause != nil && len(leases) > 0 {
		b.losses.end(s, leases)
	}
	b.idleLocked()
}

// forget withdraws a request without an answer.
func (b *Broker) forget(w *waiter) {
	w.lock()
	defer w.unlock()
	if !w.Answered() {
		b.removeLocked(w)
	}
}

// leave leaves a lease of a session that ends to run out by itself.
func (s *Session) leave(l *Lease) {
	l.lock()
	defer l.unlock()
	if l.over {
		return
	}
	s.b.metrics.lost.WithLabelValues(lock.LostSession.String()).Inc()
	s.trace(session.Lost{Hold: l.hold(), Reason: lock.LostSession})
	l.overLocked()
	s.b.dropHoldLocked(l)
}
