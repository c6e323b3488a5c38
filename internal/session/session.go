package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

// Client is what a client says of itself, and where it comes from. All but the tenant is for people.
type Client struct {
	Name   string
	Labels map[string]string
	Peer   string
	Tenant lock.Tenant
	// Identity is its name in the clients file; empty if there is none.
	Identity string
}

// OpenRequest begins a session.
type OpenRequest struct {
	Client Client
	// TTL is the session TTL; 0 for the default, if it was not checked yet.
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
	// Identity is who the client is; nil if everybody may do everything.
	Identity Identity
}

// Session is one client's relation with lockd. Its methods do not block; each request is answered through the Outbox. A
// session ends by Goodbye, by End, or by itself when its client is silent or does not read.
type Session struct {
	of          *Registry
	id          string
	opening     OpenRequest
	opened      time.Time // here
	out         *Outbox
	done        chan struct{}
	heard       atomic.Int64       // the last sign of life, in ns since opened; written with mu held
	work        atomic.Int64       // ns of work that are not paid for, see package limits
	record      lock.SessionRecord // what the store knows of it
	token       string
	lastRequest uint64       // of those before it was resumed
	settled     time.Time    // from then on no replica that it left shortens a lease; zero if it was not resumed
	farewell    limits.Slots // of the leases that are being released at its end

	// Guarded by Registry.mu.
	slot      *limits.Slot
	streaming bool        // it is the registry's, and has a stream
	aging     *time.Timer // asks it to move when its stream is old; nil if none is
	expiring  *time.Timer // asks it to move when its credentials expire, and ends it then; nil if they do not

	mu       sync.Mutex // guards the fields below
	anchor   uint64     // the last heartbeat
	anchorAt time.Time
	renewAt  time.Time // the next sign of life after this renews all auto leases
	silence  *time.Timer
	ids      requestIDs
	waiting  map[uint64]wait
	watched  map[string]struct{} // names
	use      *limits.Use         // what the sessions of its client have together; nil if nobody counts it
	unread   bool                // its requests are not read, because it does not read its answers
	detached time.Time           // when its stream broke; zero while it has one. Nothing is told any more
	ended    bool
	releases bool // and its leases are released
	finished bool
	cause    error    // why it ended; nil after Goodbye
	ops      int      // operations on leases, and askers, under way
	asks     []func() // questions to the store that nobody asks yet
	askers   int
	recording
	locks
}

// New is a session that is not one of the registry yet: Open begins it, Resume goes on with it. last is the greatest id
// of its requests before it was resumed; else 0.
func (r *Registry) New(req OpenRequest, id, token string, epoch, last uint64) *Session {
	now, l := time.Now(), r.cfg.Limits
	s := &Session{
		of: r, id: id, opening: req, opened: now, token: token, record: r.newRecord(req.Client, id, token, epoch),
		out:  newOutbox(l.LocksPerSession + 2*l.WaitersPerSession + l.WatchesPerSession + 1024),
		done: make(chan struct{}), lastRequest: last,
		anchorAt: now, renewAt: now.Add(req.TTL * renewPart / 10),
		waiting: make(map[uint64]wait),
		watched: make(map[string]struct{}), use: r.cfg.Tenants.Use(req.Client.Tenant),
	}
	if last > 0 {
		s.ids.useAll(last)
	}
	return s
}

// ID is the session's UUID.
func (s *Session) ID() string { return s.id }

// Token is what a client presents to go on with the session.
func (s *Session) Token() string { return s.token }

// Client is what the client says of itself.
func (s *Session) Client() Client { return s.opening.Client }

// Actor is that of all requests that name none; empty for none.
func (s *Session) Actor() string { return s.opening.Actor }

// FailsInDeadlock says whether a request that waits in a deadlock fails.
func (s *Session) FailsInDeadlock() bool { return s.opening.FailsInDeadlock }

// LastRequest is the greatest request id of the session before it was resumed, 0 if it began here.
func (s *Session) LastRequest() uint64 { return s.lastRequest }

// Settled is when no replica that the session left shortens a lease any more; zero if it began here.
func (s *Session) Settled() time.Time { return s.settled }

// TTL is how long its leases outlive its last sign of life.
func (s *Session) TTL() time.Duration { return s.opening.TTL }

// Outbox is what the stream has to send.
func (s *Session) Outbox() *Outbox { return s.out }

// Done is closed when the session has ended and what it had to release is released.
func (s *Session) Done() <-chan struct{} { return s.done }

// Cause says why the session ended, nil after Goodbye. To be called after Done.
func (s *Session) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Info is what a session is like at a moment.
type Info struct {
	Age, Silence            time.Duration
	Detached                time.Duration // for how long it has no stream; 0 if it has one
	Locks, Waiters, Watches int

	Asked      int // locks that the waiters ask for
	Weight     int // what it costs to renew all that, in locks
	Suspects   int // leases to be verified
	Operations int // under way
}

// Info is what it is like now.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var detached time.Duration
	if !s.detached.IsZero() {
		detached = time.Since(s.detached)
	}
	return Info{
		Age: s.opening.Age + time.Since(s.opened), Silence: time.Since(s.heardAt()), Detached: detached,
		Locks: len(s.list), Waiters: s.waiters, Watches: len(s.watched),
		Asked: s.asked, Weight: s.weight, Suspects: s.suspects, Operations: s.ops,
	}
}
