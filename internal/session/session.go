package session

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

// renewPart is after how many tenths of a TTL a sign of life renews all auto leases again: a little earlier than the
// next heartbeat comes, so each of those does, and what comes in between does not.
const renewPart = 3

// Client is what a client says of itself, and where it comes from. All but the tenant is for people.
type Client struct {
	Name   string
	Labels map[string]string
	Peer   string
	Tenant lock.Tenant
}

// Config is what a session is told at its start.
type Config struct {
	ID     string
	Client Client
	TTL    time.Duration
	Age    time.Duration // for how long it has been elsewhere
	Limits limits.Limits
	Port   Port
	// LastRequest is the greatest request id that was used before the session came here, 0 if it begins.
	LastRequest uint64
}

// Port is what a session asks of its broker.
type Port interface {
	// Heard has the leases renewed. The mutex of the session is held.
	Heard(leases *lock.Mark)
	// End says that the session is to end, because its client is silent, or does not read. It is called in a goroutine
	// of its own.
	End(cause error)
	// Safe says whether the store is there and all leases that are to be verified are known as such.
	Safe() bool
	// Told is told what the client is told. The mutex of the session is held.
	Told(e Event)
	// Denied counts a refusal and is its error.
	Denied(subject string, limit int) error
	// Go starts a goroutine.
	Go(run func())
}

// Lease is what a session has to know of a lease.
type Lease interface {
	comparable
	// Entry is the session's room in the lease.
	Entry() *Entry
}

// Session is one client's relation with a broker. L is a lease, W a request that waits. With its mutex held only
// those of the outbox, of the keeper and of watched names are locked.
type Session[L Lease, W comparable] struct {
	id     string
	client Client
	ttl    time.Duration
	limits limits.Limits
	port   Port
	opened time.Time // here
	before time.Duration
	out    *Outbox
	done   chan struct{}
	heard  atomic.Int64 // the last sign of life, in ns since opened; written with mu held

	mu       sync.Mutex // guards the fields below
	anchor   uint64     // the last heartbeat
	anchorAt time.Time
	renewAt  time.Time // the next sign of life after this renews all auto leases
	silence  *time.Timer
	ids      requestIDs
	waiting  map[uint64]wait[W]
	watched  map[string]struct{} // names
	unread   bool                // its requests are not read, because it does not read its answers
	// it is being ended, because its outbox ran full or its client was silent: nothing more is told
	doomed   bool
	detached time.Time // when its stream broke; zero while it has one. Nothing is told any more
	ended    bool
	releases bool // and its leases are released
	finished bool
	cause    error    // why it ended; nil after Goodbye
	ops      int      // operations on leases, and askers, under way
	asks     []func() // questions to the store that nobody asks yet
	askers   int
	locks[L]
}

// New begins a session. Start has it end when its client is silent.
func New[L Lease, W comparable](cfg Config) *Session[L, W] {
	now, l := time.Now(), cfg.Limits
	s := &Session[L, W]{
		id: cfg.ID, client: cfg.Client, ttl: cfg.TTL, limits: l, port: cfg.Port, opened: now, before: cfg.Age,
		out:      newOutbox(l.LocksPerSession + 2*l.WaitersPerSession + l.WatchesPerSession + 1024),
		done:     make(chan struct{}),
		anchorAt: now, renewAt: now.Add(cfg.TTL * renewPart / 10),
		waiting: make(map[uint64]wait[W]),
		watched: make(map[string]struct{}),
	}
	if cfg.LastRequest > 0 {
		s.ids.useAll(cfg.LastRequest)
	}
	return s
}

// Start begins to watch whether the client is heard.
func (s *Session[L, W]) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = time.AfterFunc(s.ttl, s.checkSilence)
}

// ID is the session's UUID.
func (s *Session[L, W]) ID() string { return s.id }

// Client is what the client says of itself.
func (s *Session[L, W]) Client() Client { return s.client }

// TTL is how long its leases outlive its last sign of life.
func (s *Session[L, W]) TTL() time.Duration { return s.ttl }

// HeartbeatInterval is how often the client must be heard.
func (s *Session[L, W]) HeartbeatInterval() time.Duration { return s.ttl / limits.Heartbeats }

// Outbox is what the stream has to send.
func (s *Session[L, W]) Outbox() *Outbox { return s.out }

// Done is closed when the session has ended and what it had to release is released.
func (s *Session[L, W]) Done() <-chan struct{} { return s.done }

// Cause says why the session ended, nil after Goodbye. To be called after Done.
func (s *Session[L, W]) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// AutoEnd is until when an auto lease is renewed: one session TTL after its client was last heard.
func (s *Session[L, W]) AutoEnd() time.Time { return s.heardAt().Add(s.ttl) }

// heardAt is when the client was last heard.
func (s *Session[L, W]) heardAt() time.Time { return s.opened.Add(time.Duration(s.heard.Load())) }

// Hear notes a sign of life, of a session that has not ended. It also has the leases renewed, if the last time
// is long enough ago: what is renewed just after a sign of life lasts longest.
func (s *Session[L, W]) Hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.hearLocked()
	}
}

func (s *Session[L, W]) hearLocked() (now time.Time) {
	now = time.Now()
	s.heard.Store(int64(now.Sub(s.opened)))
	if !now.Before(s.renewAt) {
		s.renewAt = now.Add(s.ttl * renewPart / 10)
		s.port.Heard(&s.mark)
	}
	return now
}

// Unread says whether the session's requests are left unread because its answers are not read. Meanwhile it is not
// heard, so a client that does not go on reading within its TTL loses its session.
func (s *Session[L, W]) Unread(unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = unread
}

// checkSilence ends the session if its client was silent for a TTL, or looks again when that may be. A client that is
// heard after that is not answered.
func (s *Session[L, W]) checkSilence() {
	s.mu.Lock()
	left, cause := time.Until(s.AutoEnd()), ErrSilent
	if s.unread {
		cause = ErrBacklog
	}
	if !s.ended && left > 0 {
		s.silence.Reset(left)
	}
	s.doomed = s.doomed || !s.ended && left <= 0
	s.mu.Unlock()
	if left <= 0 {
		s.port.End(cause)
	}
}

// Heartbeat is a sign of life that is answered with the validity of the session's auto leases. Its id may be 0.
func (s *Session[L, W]) Heartbeat(id, sentID uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.anchor, s.anchorAt = sentID, s.hearLocked()
	s.tellLocked(HeartbeatAck{ID: id, SentID: sentID, Until: s.soonestLocked()})
}

// Refuse answers a request that could not even be read.
func (s *Session[L, W]) Refuse(id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ids.use(id)
	s.tellLocked(Failed{ID: id, Err: err})
}

// Admit checks what all requests have in common.
func (s *Session[L, W]) Admit(id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrSessionExpired
	case id == 0:
		return lock.Invalid("request_id", lock.ReasonRequestID, "must be greater than 0")
	case !s.ids.use(id):
		return ErrRepeated
	}
	return nil
}

// Tell puts an event into the outbox. A client that lets it run full is not served any more. Of an ended session only
// the answers to what was under way at its Goodbye are of interest.
func (s *Session[L, W]) Tell(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked(e)
}

// Fail tells that a request was not carried out.
func (s *Session[L, W]) Fail(id uint64, err error) { s.Tell(Failed{ID: id, Err: err}) }

// Answer tells the outcome of a request: e, unless there is an error.
func (s *Session[L, W]) Answer(id uint64, e Event, err error) {
	if err != nil {
		e = Failed{ID: id, Err: err}
	}
	s.Tell(e)
}

// tellLocked tells nothing after what there was no room for.
func (s *Session[L, W]) tellLocked(e Event) {
	if s.doomed || !s.detached.IsZero() || s.ended && s.cause != nil {
		return
	}
	s.port.Told(e)
	if !s.out.put(s.anchoredLocked(e)) {
		s.doomed = true
		s.port.Go(func() { s.port.End(ErrBacklog) }) // that locks the mutexes of names
	}
}

// anchoredLocked has an event that tells until when a lease is valid tell which sign of life the server had last.
func (s *Session[L, W]) anchoredLocked(e Event) Event {
	switch t := e.(type) {
	case Granted:
		t.Validity = s.validityLocked(t.Validity.Until)
		return t
	case Extended:
		t.Validity = s.validityLocked(t.Validity.Until)
		return t
	case Released:
		if t.Remaining > 0 {
			t.Validity = s.validityLocked(t.Validity.Until)
			return t
		}
	}
	return e
}

// TellChanged is Count and Tell in the same moment: a heartbeat is answered with what holds for the leases that the
// client was told are auto.
func (s *Session[L, W]) TellChanged(l L, auto bool, until time.Time, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l, auto, until)
	s.tellLocked(e)
}

// Validity is what is told of the end of a validity.
func (s *Session[L, W]) Validity(until time.Time) Validity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validityLocked(until)
}

func (s *Session[L, W]) validityLocked(until time.Time) Validity {
	return Validity{Until: until, Anchor: s.anchor, AnchorAt: s.anchorAt}
}

// Info is what a session is like at a moment.
type Info struct {
	Age, Silence            time.Duration
	Detached                time.Duration // for how long it has no stream; 0 if it has one
	Locks, Waiters, Watches int

	Asked      int // locks that the waiters ask for
	Weight     int // what it costs to renew all that, in locks
	Undoing    int // holds with an unknown outcome being cleared up
	Suspects   int // leases to be verified
	Operations int // under way
}

// Info is what it is like now.
func (s *Session[L, W]) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var detached time.Duration
	if !s.detached.IsZero() {
		detached = time.Since(s.detached)
	}
	return Info{
		Age: s.before + time.Since(s.opened), Silence: time.Since(s.heardAt()), Detached: detached,
		Locks: len(s.list), Waiters: s.waiters, Watches: len(s.watched),
		Asked: s.asked, Weight: s.weight, Undoing: s.undoing, Suspects: s.suspects, Operations: s.ops,
	}
}

// Watch notes that a name is watched. begin begins that, with the mutex held: what is told before the answer is of
// no interest.
func (s *Session[L, W]) Watch(name string, begin func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, already := s.watched[name]
	switch {
	case s.ended:
		return ErrSessionExpired
	case !already && len(s.watched) >= s.limits.WatchesPerSession:
		return s.port.Denied("watches", s.limits.WatchesPerSession)
	}
	s.watched[name] = struct{}{}
	begin()
	return nil
}

// Unwatch notes that it is watched no more. end ends that.
func (s *Session[L, W]) Unwatch(name string, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watched, name)
	end()
}

// TellWatched is Tell for an end of a hold, if its name is still watched.
func (s *Session[L, W]) TellWatched(e Unlocked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.watched[e.Name]; still {
		s.tellLocked(e)
	}
}

// Rest is what a session leaves behind.
type Rest[L Lease, W comparable] struct {
	Waiting []W
	Watched []string
	Leases  []L
}

// unansweredLocked are all requests that wait.
func (s *Session[L, W]) unansweredLocked() (ws []W) {
	for _, e := range s.waiting {
		ws = append(ws, e.w)
	}
	return ws
}

// Detach takes its stream from a session that keeps its leases: its client may come back. It is what the session leaves
// without them. Nothing more is told, and nobody is heard, so it ends when the client is not back in time.
func (s *Session[L, W]) Detach() (left Rest[L, W], first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.detached.IsZero() {
		return left, false
	}
	s.detached = time.Now()
	left = Rest[L, W]{Waiting: s.unansweredLocked(), Watched: slices.Collect(maps.Keys(s.watched))}
	clear(s.watched)
	return left, true
}

// KeepsPlaces says whether places in queues are left to end by themselves: the session may go on elsewhere, with them.
func (s *Session[L, W]) KeepsPlaces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.detached.IsZero() || s.ended && (errors.Is(s.cause, ErrDraining) || errors.Is(s.cause, ErrSuperseded))
}

// Retire ends a session, and is what it leaves to be taken from it; or says that it has ended before. cause is nil
// after a Goodbye. release says whether the leases are to be released, and not left to run out. From here on nothing
// more is listed as its own. Call LeaveOp when all is done.
func (s *Session[L, W]) Retire(cause error, release bool) (left Rest[L, W], first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return left, false
	}
	s.ended, s.releases, s.cause = true, release, cause
	s.ops++
	s.silence.Stop()
	return Rest[L, W]{
		s.unansweredLocked(), slices.Collect(maps.Keys(s.watched)), slices.Clone(s.list),
	}, true
}

// LeavesLeases says whether it is retired and leaves its leases to run out: the client may still be at work.
func (s *Session[L, W]) LeavesLeases() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && !s.releases
}
