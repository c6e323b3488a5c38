package broker

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/admission"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// Client is what a client says of itself, and where it comes from. It is for people.
type Client struct {
	Name   string
	Labels map[string]string
	Peer   string
}

// OpenRequest begins a session.
type OpenRequest struct {
	Client Client
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
	b            *Broker
	id           string
	client       Client
	slot         *admission.Slot
	ttl          time.Duration
	releaseOnEnd bool
	opened       time.Time
	out          *Outbox
	done         chan struct{}

	// Guarded by Broker.mu:
	heard     time.Time // the last sign of life
	anchor    uint64    // the last heartbeat
	anchorAt  time.Time
	hurryAt   time.Time // the next sign of life after this renews all auto leases
	silence   *time.Timer
	ids       requestIDs
	list      []*Lease // that it holds
	waiting   map[uint64]*waiter
	asked     int                 // locks that those ask for
	weight    int                 // what it costs to renew what is held and asked for, in locks
	watched   map[string]struct{} // names
	undoing   int                 // holds with an unknown outcome being cleared up
	suspects  int                 // leases to be verified before Safe is told
	earliest  *earliest           // end of the validity of an auto lease; nil while there are few
	mark      lock.Mark           // the Keeper's, of the auto leases
	unread    bool                // its requests are not read, because it does not read its answers
	atRisk    bool                // AtRisk was told, Safe was not
	ended     bool
	releasing bool     // then its leases were to be released
	cause     error    // why it ended; nil after Goodbye
	ops       int      // operations on leases, and askers, under way
	asks      []func() // questions to the store that nobody asks yet
	askers    int
}

// Open begins a session.
func (b *Broker) Open(req OpenRequest) (*Session, error) {
	ttl, err := b.checkOpen(req)
	if err != nil {
		return nil, err
	}
	limits := b.cfg.Limits
	now := time.Now()
	s := &Session{
		b: b, id: newID(), client: req.Client, ttl: ttl, releaseOnEnd: req.ReleaseOnEnd, opened: now,
		out:   newOutbox(limits.LocksPerSession + 2*limits.WaitersPerSession + limits.WatchesPerSession + 1024),
		done:  make(chan struct{}),
		heard: now, anchorAt: now, hurryAt: now.Add(ttl / 4),
		waiting: make(map[uint64]*waiter),
		watched: make(map[string]struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return nil, ErrDraining
	}
	if s.slot, err = b.desk.Begin(req.Slot, req.Client.Peer); err != nil {
		return nil, err
	}
	if s.slot == nil { // its stream is over
		return nil, ErrNotOpen
	}
	b.sessions[s.id] = s
	b.order.sessions.ReplaceOrInsert(s)
	s.silence = time.AfterFunc(ttl, s.checkSilence)
	b.log.Debug("session opened", zap.String(observe.KeySession, s.id),
		zap.String(observe.KeyClient, s.client.Name), zap.String(observe.KeyPeer, s.client.Peer))
	return s, nil
}

// ID is the session's UUID.
func (s *Session) ID() string { return s.id }

// TTL is how long its leases outlive its last sign of life.
func (s *Session) TTL() time.Duration { return s.ttl }

// HeartbeatInterval is how often the client must be heard.
func (s *Session) HeartbeatInterval() time.Duration { return s.ttl / heartbeats }

// Outbox is what the stream has to send.
func (s *Session) Outbox() *Outbox { return s.out }

// Done is closed when the session has ended and what it had to release is released.
func (s *Session) Done() <-chan struct{} { return s.done }

// Cause says why the session ended, nil after Goodbye. To be called after Done.
func (s *Session) Cause() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.cause
}

func (s *Session) hearLocked() {
	s.heard = time.Now()
	if s.heard.Before(s.hurryAt) {
		return
	}
	s.hurryAt = s.heard.Add(s.ttl / 4)
	s.b.keeper.Heard(&s.mark)
}

// Unread says whether the session's requests are left unread because its answers are not read. Meanwhile it is not heard,
// so a client that does not go on reading within its TTL loses its session.
func (s *Session) Unread(unread bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.unread = unread
}

// Heartbeat is a sign of life that is answered with the validity of the session's auto leases. Its id may be 0.
func (s *Session) Heartbeat(id, sentID uint64) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.ended {
		return
	}
	s.hearLocked()
	s.anchor, s.anchorAt = sentID, s.heard
	s.emitLocked(HeartbeatAck{ID: id, SentID: sentID, Until: s.soonestLocked()})
}

// Refuse answers a request that could not even be read. Like any other message it is a sign of life.
func (s *Session) Refuse(id uint64, err error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.hearLocked()
	s.refuseLocked(id, err)
}

func (s *Session) refuseLocked(id uint64, err error) {
	if s.ended {
		return
	}
	s.ids.use(id)
	s.emitLocked(Failed{ID: id, Err: err})
}

// Goodbye releases all and ends the session.
func (s *Session) Goodbye() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.endLocked(nil, true)
}

// End ends a session whose stream broke. Its waiters are withdrawn at once; its leases run out by themselves unless
// the session asked for their release.
func (s *Session) End(cause error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.endLocked(cause, s.releaseOnEnd)
}

func (s *Session) endLocked(cause error, release bool) {
	if s.ended {
		return
	}
	b := s.b
	s.ended, s.releasing, s.cause = true, release, cause
	s.silence.Stop()
	delete(b.sessions, s.id)
	s.slot.End()
	b.order.sessions.Delete(s)
	for _, w := range s.waiting {
		b.removeLocked(w)
	}
	for name := range s.watched {
		s.unwatchLocked(name)
	}
	b.noteEndLocked(s)
	for _, l := range slices.Backward(s.list) { // one that is over leaves the list, and the last one takes its place
		if release {
			l.doLocked(func() { b.releaseAtEnd(l) })
			continue
		}
		b.metrics.lost.WithLabelValues(lock.LostSession.String()).Inc()
		s.traceLocked(Lost{Hold: l.hold(), Reason: lock.LostSession})
		l.overLocked()
		b.freeLocked(l)
	}
	b.log.Debug("session ended", zap.String(observe.KeySession, s.id), zap.NamedError(observe.KeyCause, cause))
	b.idleLocked()
	s.finishLocked()
}

// finishLocked closes done when the session has ended and none of its operations is under way.
func (s *Session) finishLocked() {
	if s.ended && s.ops == 0 {
		close(s.done)
	}
}

// releaseAtEnd releases a lease of a session that ends. It runs as an operation of the lease.
func (b *Broker) releaseAtEnd(l *Lease) {
	b.mu.Lock()
	held := !l.over
	if held {
		l.overLocked()
	}
	b.mu.Unlock()
	if held && b.releaseLease(l) == nil { // else it goes on in the background
		l.traceReleased(0)
	}
}

// checkSilence ends the session if its client was silent for a TTL, or looks again when that may be.
func (s *Session) checkSilence() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	left := time.Until(s.heard.Add(s.ttl))
	switch {
	case s.ended:
	case left > 0:
		s.silence.Reset(left)
	case s.unread:
		s.endLocked(ErrBacklog, s.releaseOnEnd)
	default:
		s.endLocked(ErrSilent, s.releaseOnEnd)
	}
}

// emitLocked puts an event into the outbox. A client that lets it run full is not served any more. Of an ended
// session only the answers to what was under way at its Goodbye are of interest.
func (s *Session) emitLocked(e Event) {
	if s.ended && s.cause != nil {
		return
	}
	s.traceLocked(e)
	if !s.out.put(e) {
		s.endLocked(ErrBacklog, s.releaseOnEnd)
	}
}

// admitLocked checks what all requests have in common.
func (s *Session) admitLocked(id uint64) error {
	switch {
	case s.ended:
		return ErrSessionExpired
	case id == 0:
		return &lock.InvalidError{Field: "request_id", Reason: lock.ReasonRequestID, Detail: "must be greater than 0"}
	case !s.ids.use(id):
		return ErrRepeated
	}
	return nil
}

// owner is a new owner for each request: what an earlier request of the same holder left in the store, or what comes
// late of it, has nothing to do with a later one.
func (s *Session) owner(request string) lock.Owner { return lock.Owner(s.id + ":" + request) }

func (s *Session) validityLocked(until time.Time) Validity {
	return Validity{Until: until, Anchor: s.anchor, AnchorAt: s.anchorAt}
}

// checkOpen validates an OpenRequest and returns the session's TTL.
func (b *Broker) checkOpen(req OpenRequest) (time.Duration, error) {
	err := checkText("client_name", lock.ReasonClient, req.Client.Name, clientNameBytes)
	if len(req.Client.Labels) > maxLabels {
		err = errors.Join(err, &lock.InvalidError{Field: "labels", Reason: lock.ReasonClient, Detail: "too many"})
	}
	for k, v := range req.Client.Labels {
		err = errors.Join(err, checkText("labels", lock.ReasonClient, k+v, labelBytes))
	}
	ttl := req.TTL
	if ttl == 0 {
		ttl = b.cfg.SessionTTL
	}
	if ttl < b.cfg.MinSessionTTL || ttl > b.cfg.MaxSessionTTL {
		err = errors.Join(err, &lock.InvalidError{
			Field: "session_ttl", Reason: lock.ReasonDuration,
			Detail: "must be between " + b.cfg.MinSessionTTL.String() + " and " + b.cfg.MaxSessionTTL.String(),
		})
	}
	return ttl, err
}
