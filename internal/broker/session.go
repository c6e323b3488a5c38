package broker

import (
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// OpenRequest begins a session.
type OpenRequest struct {
	Client session.Client
	// TTL is the wanted session TTL; 0 for the default.
	TTL time.Duration
	// Age is for how long a session that goes on has been elsewhere, as its client says; for people only.
	Age time.Duration
	// ReleaseOnEnd releases the leases at once when the stream breaks, instead of letting them run out.
	ReleaseOnEnd bool
	// ComesBack says that the client goes on with the session when its stream breaks.
	ComesBack bool
	// Actor is that of all requests that name none; empty for none.
	Actor string
	// FailsInDeadlock has a request that waits in a deadlock fail.
	FailsInDeadlock bool
	// Slot is the one the client took when it came; nil to take one now.
	Slot *limits.Slot
}

// Session is one client's relation with this broker. Its methods do not block; each request is answered through the
// Outbox. A session ends by Goodbye, by End, or by itself when its client is silent or does not read.
type Session struct {
	*session.Session[*Lease, *waiter]
	b            *Broker
	slot         *limits.Slot
	releaseOnEnd bool
	comesBack    bool
	actor        string // of requests that name none
	fails        bool   // in a deadlock
	lastRequest  uint64 // of those before it was resumed
	record       record
	settled      time.Time     // from then on no replica that it left shortens a lease; zero if it was not resumed
	farewell     chan struct{} // has a value for each lease that is being released at its end
	work         atomic.Int64  // nanoseconds of it that are not paid for, see package limits

	// Guarded by Broker.mu.
	streaming bool        // it is the broker's, and has a stream
	aging     *time.Timer // asks it to move when its stream is old; nil if none is
}

// Open begins a session.
func (b *Broker) Open(req OpenRequest) (*Session, error) {
	ttl, err := b.rules.Open(req.Client, req.TTL, req.Actor)
	if err != nil {
		return nil, err
	}
	s := b.newSession(req, newID(), ttl, 0)
	s.record.token = rand.Text() + rand.Text()
	s.record.SessionRecord = b.newRecord(req.Client, s.ID(), s.record.token, 1)
	if _, err := b.join(s, req.Slot); err != nil {
		return nil, err
	}
	s.keepRecord()
	b.log.Debug("session opened", zap.String(observe.KeySession, s.ID()),
		zap.String(observe.KeyClient, s.Client().Name), zap.String(observe.KeyPeer, s.Client().Peer))
	return s, nil
}

// newSession is one that is not the broker's yet.
func (b *Broker) newSession(req OpenRequest, id string, ttl time.Duration, lastRequest uint64) *Session {
	s := &Session{
		b: b, releaseOnEnd: req.ReleaseOnEnd, comesBack: req.ComesBack, lastRequest: lastRequest,
		actor: req.Actor, fails: req.FailsInDeadlock,
	}
	s.Session = session.New[*Lease, *waiter](session.Config{
		ID: id, Client: req.Client, TTL: ttl, Age: request.PastOf(req.Age), Port: port{s}, LastRequest: lastRequest,
		Limits: b.cfg.Limits,
	})
	return s
}

// Token is what a client presents to go on with the session.
func (s *Session) Token() string { return s.record.token }

// join makes a session one of the broker's, unless there is one with its id, which it returns.
func (b *Broker) join(s *Session, slot *limits.Slot) (before *Session, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return nil, session.ErrDraining
	}
	if at, there := b.sessions.Get(sessionAt{id: s.ID()}); there {
		return at.session, nil
	}
	if s.slot, err = b.tenants.Begin(slot, s.Client().Tenant); err != nil {
		return nil, err
	}
	if s.slot == nil { // its stream is over
		return nil, session.ErrNotOpen
	}
	b.sessions.ReplaceOrInsert(sessionAt{s.ID(), s})
	b.streamingLocked(s)
	s.Start()
	return nil, nil
}

// port is what a session asks of its broker.
type port struct{ s *Session }

// Heard implements session.Port.
func (p port) Heard(leases *lock.Mark) {
	p.s.b.keeper.Heard(leases)
	p.s.keepRecord()
}

// End implements session.Port.
func (p port) End(cause error) { p.s.End(cause) }

// Safe implements session.Port.
func (p port) Safe() bool { return p.s.b.safe.Load() }

// Told implements session.Port.
func (p port) Told(e session.Event) {
	p.s.Spend(priceOf(e))
	p.s.trace(e)
}

// Denied implements session.Port.
func (p port) Denied(subject string, limit int) error { return p.s.b.metrics.denied(subject, limit) }

// Go implements session.Port.
func (p port) Go(run func()) { p.s.b.wg.Go(run) }

// Goodbye releases all and ends the session.
func (s *Session) Goodbye() { s.end(nil, true) }

// Detach takes its stream from a session that broke. What it waits for and watches is withdrawn at once. Its leases
// stay as long as their client may come back, one session TTL after it was last heard; unless the session asked for
// their release. Without leases, or if its client did not say that it comes back, or if very many are gone like it, it
// ends here, and may go on all the same: the store has its record.
func (s *Session) Detach(cause error) {
	if s.releaseOnEnd || !s.comesBack {
		s.End(cause)
		return
	}
	left, first := s.Session.Detach()
	if !first {
		return
	}
	s.withdraw(left.Watched, left.Waiting)
	s.b.log.Debug("session detached", zap.String(observe.KeySession, s.ID()), zap.NamedError(observe.KeyCause, cause))
	if !s.slot.Part() || s.Info().Locks == 0 {
		s.End(cause)
		return
	}
	s.leaveIfElsewhere()
}

// End ends a session for a reason. Its leases run out by themselves unless the session asked for their release.
func (s *Session) End(cause error) { s.end(cause, s.releaseOnEnd) }

// end ends a session, and takes from it what it has, each thing with the mutex of its name. What it releases it
// releases once nobody can go on with the session.
func (s *Session) end(cause error, release bool) {
	if errors.Is(cause, session.ErrSuperseded) {
		release = false
	}
	left, first := s.Retire(cause, release)
	if !first {
		return
	}
	s.settleWork()
	s.b.part(s, cause, left.Leases)
	s.withdraw(left.Watched, left.Waiting)
	s.b.log.Debug("session ended", zap.String(observe.KeySession, s.ID()), zap.NamedError(observe.KeyCause, cause))
	if !release {
		s.leave(left.Leases)
		s.LeaveOp()
		return
	}
	s.b.goTaking(func() { s.giveBack(left.Leases) })
}

// giveBack releases leases at the end of their session. If the store does not answer for a while, that goes on in the
// background.
func (s *Session) giveBack(ls []*Lease) {
	finish := sync.OnceFunc(s.LeaveOp)
	defer finish()
	defer time.AfterFunc(s.b.cfg.AnswerTime, finish).Stop()
	if !s.endRecord() {
		s.leave(ls)
		return
	}
	s.releaseAll(ls)
}

// withdraw ends what a session waits for and watches.
func (s *Session) withdraw(watched []string, waiting []*waiter) {
	for _, name := range watched {
		s.unwatch(name)
	}
	for _, w := range waiting {
		s.b.forget(w)
	}
}

// leave lets leases run out by themselves, or go on elsewhere.
func (s *Session) leave(ls []*Lease) {
	elsewhere := errors.Is(s.Cause(), session.ErrSuperseded)
	for _, l := range slices.Backward(ls) {
		l.lock()
		if !l.over {
			if !elsewhere {
				s.b.metrics.lost.WithLabelValues(lock.LostSession.String()).Inc()
				s.trace(session.Lost{Hold: l.hold(), Reason: lock.LostSession})
			}
			l.overLocked()
			s.b.dropHoldLocked(l)
		}
		l.unlock()
	}
}

// part takes a session that ends from those of the broker.
func (b *Broker) part(s *Session, cause error, leases []*Lease) {
	s.slot.End()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, _ := b.sessions.Get(sessionAt{id: s.ID()}); at.session == s { // else it has come back
		b.sessions.Delete(at)
	}
	if cause != nil && len(leases) > 0 && !errors.Is(cause, session.ErrSuperseded) {
		b.noteEndLocked(s, cause, leases)
	}
	b.unstreamedLocked(s)
}

// forget withdraws a request without an answer.
func (b *Broker) forget(w *waiter) {
	w.lock()
	defer w.unlock()
	if !w.Answered() {
		w.spanRefused(errWithdrawn)
		b.removeLocked(w)
		w.sess.Leave(w.id, w)
	}
}
