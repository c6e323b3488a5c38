package session

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/watching"
)

// Config is what a Registry is told at its start.
type Config struct {
	Replica      string // its name for people
	Limits       limits.Limits
	MaxStreamAge time.Duration
	AnswerTime   time.Duration
	Tenants      *limits.Tenants
	Watching     *watching.Hub
	Denied       limits.Denied
	CheckName    func(name string) error
	Log          *zap.Logger
	// Heard has the auto leases of a session renewed. The mutex of the session is held.
	Heard func(leases *lock.Note)
	// Begin and End surround what is to be over before the store is left.
	Begin, End func()
}

// Lease is a lock that a session holds. Its methods lock the mutex of its name, but for the first three.
type Lease interface {
	// Entry is what the session keeps of the lease.
	Entry() *Entry
	// Hold is what never changes.
	Hold() Hold
	// Terms are called with the mutex of the name held.
	Terms() Terms
	// Describe tells what it is like, if it is still held.
	Describe() (h HeldLock, held bool)
	// Hurry has it renewed now.
	Hurry()
	// Adopt makes it one of its session, which was resumed, unless the session has ended.
	Adopt() (adopted bool)
	// Leave lets it run out by itself, or go on elsewhere.
	Leave(elsewhere bool)
	// Forbid ends it because its client may lock the name no more, and says whether it was held. Free follows then.
	Forbid() (was bool)
	// Free has the store free the name, and calls done when it has answered.
	Free(done func())
	// Release begins to release it at the end of its session, and calls LeaseReleased when that is done.
	Release()
}

// Waiter is a request that waits. Its methods lock the mutex of its name.
type Waiter interface {
	// Withdraw ends it without an answer.
	Withdraw()
	// Cancel ends it because its client says so, and says whether it waited.
	Cancel() bool
	// Review ends it with the error of a name that its client may lock no more, if there is one.
	Review(who Identity)
}

// Terms are those of a lease at a moment.
type Terms struct {
	Auto   bool
	Until  time.Time // the end of its validity
	Most   time.Time // no validity is later; zero if there is no such bound
	Weight int       // what it costs to renew it, in locks
}

// lasts says whether the validity lasts until Most.
func (t Terms) lasts() bool { return !t.Most.IsZero() && !t.Until.Before(t.Most) }

// Registry has the sessions of a replica.
type Registry struct {
	cfg     Config
	ctx     context.Context // ends all store calls and background work
	store   lock.Store
	log     *zap.Logger
	losses  [lock.LostMaxHold + 1]observe.LogLimiter // lines of the log, by reason
	ends    observe.LogLimiter
	moves   limits.Slots // sessions of which the others are being told
	freeing limits.Slots // of lost leases, those whose names are being freed
	resumes resumes
	deaf    func()      // hears no more of sessions that moved
	safe    atomic.Bool // the store is there, and all leases that are to be verified are marked: Safe may be told

	mu       sync.Mutex // guards the fields below. With it held only a session or the tenants are locked
	open     *btree.BTreeG[at]
	coming   map[string]*arrival // sessions that are being resumed, by their ids
	streams  int                 // sessions that have one
	draining bool
	closed   bool          // and stays so
	asking   chan struct{} // closed to end the askToMove under way
	// closed when no session of a draining replica has a stream; another one after an Undrain
	idle chan struct{}
}

// at is a session in the order in which operators are told them: so a page costs what is on it and not what there is.
type at struct {
	id      string
	session *Session
}

// degree is the width of the tree.
const degree = 32

// NewRegistry makes a Registry. EndAll ends it.
func NewRegistry(ctx context.Context, cfg Config, store lock.Store) *Registry {
	r := &Registry{
		cfg: cfg, ctx: ctx, store: store, log: cfg.Log, moves: make(limits.Slots, limits.Moves),
		freeing: make(limits.Slots, limits.Freeing),
		resumes: newResumes(cfg.Denied), asking: make(chan struct{}), idle: make(chan struct{}),
		coming: make(map[string]*arrival),
		open:   btree.NewG(degree, func(a, b at) bool { return a.id < b.id }),
	}
	r.deaf = store.Subscribe(movedTopic, r.heardMoved)
	return r
}

// NewToken is one that nobody can guess.
func NewToken() string { return rand.Text() + rand.Text() }

// Open begins a session.
func (s *Session) Open() error {
	if _, err := s.join(); err != nil {
		return err
	}
	s.mu.Lock()
	s.keepRecordLocked(1)
	s.mu.Unlock()
	s.of.log.Debug("session opened", zap.String(observe.KeySession, s.id),
		zap.String(observe.KeyClient, s.Client().Name), zap.String(observe.KeyPeer, s.Client().Peer))
	return nil
}

// join makes a session one of the registry, unless there is one with its id, which it returns.
func (s *Session) join() (before *Session, err error) {
	r := s.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return nil, ErrDraining
	}
	if a, there := r.open.Get(at{id: s.id}); there {
		return a.session, nil
	}
	if s.slot, err = r.cfg.Tenants.Begin(s.opening.Slot, s.Client().Tenant); err != nil {
		return nil, err
	}
	if s.slot == nil { // its stream is over
		return nil, ErrNotOpen
	}
	r.open.ReplaceOrInsert(at{s.id, s})
	r.streamingLocked(s)
	s.mu.Lock()
	s.silence = time.AfterFunc(s.TTL(), s.checkSilence)
	s.mu.Unlock()
	return nil, nil
}

// part takes a session that ends from those of the registry.
func (r *Registry) part(s *Session) {
	s.slot.End()
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, _ := r.open.Get(at{id: s.id}); a.session == s { // else it has come back
		r.open.Delete(a)
	}
	r.unstreamedLocked(s)
}

// EndAll ends all sessions, for good, and returns them. Leases of sessions that asked for it are released, the others
// run out by themselves: their clients may still be at work.
func (r *Registry) EndAll() []*Session {
	r.mu.Lock()
	r.draining, r.closed = true, true
	r.askNoMoreLocked()
	r.idleLocked()
	r.mu.Unlock()
	all := r.All()
	for _, s := range all {
		s.End(ErrDraining)
	}
	r.deaf()
	return all
}

// Draining says whether no more sessions and unary acquires are accepted.
func (r *Registry) Draining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// Session is the open session with an id, nil if there is none.
func (r *Registry) Session(id string) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, _ := r.open.Get(at{id: id})
	return a.session
}

// All are the open sessions at this moment.
func (r *Registry) All() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pageLocked("", r.open.Len())
}

// Page are up to size open sessions, ordered by id, from the one after the given id on.
func (r *Registry) Page(after string, size int) []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pageLocked(after, size)
}

func (r *Registry) pageLocked(after string, size int) []*Session {
	page := make([]*Session, 0, min(size, r.open.Len()))
	r.open.AscendGreaterOrEqual(at{id: after}, func(a at) bool {
		if a.id != after && len(page) < size {
			page = append(page, a.session)
		}
		return len(page) < size
	})
	return page
}

// Len is how many sessions are open.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open.Len()
}

// goes starts a goroutine that is to be over before the store is left.
func (r *Registry) goes(run func()) {
	r.cfg.Begin()
	go func() {
		defer r.cfg.End()
		run()
	}()
}
