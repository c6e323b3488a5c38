package broker

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/admission"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/peers"
	"github.com/lockd-io/lockd/internal/watching"
)

// Broker serves sessions and unary calls on one Store.
type Broker struct {
	cfg     Config
	store   lock.Store
	keeper  Keeper
	log     *zap.Logger
	metrics *metrics
	began   time.Time       // earlier than all stamps
	ctx     context.Context // ends all store calls and background work
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	quiet   chan struct{} // size 1, has a value when taking became 0
	undoing chan struct{} // has a value for each undo that is at the store
	peers   *peers.Peers[question, knowledge]
	notes   notes

	watching *watching.Hub
	desk     *admission.Desk
	listings chan struct{} // has a value for each list that is being read from the store

	walking sync.Mutex // held by the one who walks along the waiters of a queue; locked before mu

	// Locked before Outbox.mu and before the Keeper's own lock.
	mu                       sync.Mutex // guards the fields below, and all queues, sessions and leases
	queues                   map[string]*queue
	sessions                 map[string]*Session
	pieces                   uint64 // how often work on many things gave the mutex away
	order                    order
	bounded                  list.List                 // of *waiter, requests with a bounded wait that need not wait yet, in order of age
	boundAt                  *time.Timer               // looks at bounded; nil while that is empty
	own                      map[lock.Owner]own        // requests whose callers chose their lease ids
	leaving                  map[placeKey][]lock.Owner // places being given up
	draining                 bool
	idle                     chan struct{} // closed when the last session left a draining broker; another one after an Undrain
	marking                  bool          // leases are being marked as to be verified: nobody is told Safe
	closed                   bool
	recounting, recountAgain bool   // all leases are being verified, and will be once more
	taking                   int    // goroutines that may take a lock, or give back what was taken for nobody
	down                     error  // why the store cannot be reached
	identity                 string // of the store, at the last probe
	losses                   losses
}

// New starts a broker. Close ends it.
func New(cfg Config, store lock.Store, keeper Keeper, log *zap.Logger, reg prometheus.Registerer) *Broker {
	ctx, stop := context.WithCancelCause(context.Background())
	b := &Broker{
		cfg: cfg, store: store, keeper: keeper, log: log.Named("broker"), began: time.Now().Add(-time.Second), ctx: ctx, stop: stop,
		idle:     make(chan struct{}),
		listings: make(chan struct{}, maxListings),
		quiet:    make(chan struct{}, 1),
		undoing:  make(chan struct{}, maxUndoing),
		down:     errNotProbed,
		queues:   make(map[string]*queue),
		sessions: make(map[string]*Session),
		order:    newOrder(),
		watching: watching.New(store),
		own:      make(map[lock.Owner]own),
		leaving:  make(map[placeKey][]lock.Owner),
	}
	b.metrics = newMetrics(reg, b)
	b.desk = admission.New(cfg.Limits.Limits, b.metrics.denied)
	b.joinPeers()
	b.wg.Go(b.monitor)
	return b
}

// Limits are the bounds this broker keeps.
func (b *Broker) Limits() Limits { return b.cfg.Limits }

// Replica is this process's name for people.
func (b *Broker) Replica() string { return b.cfg.Replica }

// Desk lets clients in. A session begins with Arrive.
func (b *Broker) Desk() *admission.Desk { return b.desk }

// Arrive takes a slot for a client that is about to open a session. Leave it in any case.
func (b *Broker) Arrive(peer string) (*admission.Slot, error) {
	b.mu.Lock()
	closed := b.draining || b.closed
	b.mu.Unlock()
	if closed {
		return nil, ErrDraining
	}
	return b.desk.Arrive(peer)
}

// Ready is nil when the store can be reached and the broker accepts sessions.
func (b *Broker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return ErrDraining
	}
	return b.down
}

// Drain accepts no more sessions and unary acquires, and asks all clients to move, each at its own moment within the
// given time, so that they do not all come at once. It returns how many were asked.
func (b *Broker) Drain(within time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.draining {
		b.draining = true
		b.idleLocked()
	}
	n, i := len(b.sessions), 0
	var p piece
	for _, s := range b.sessions {
		i = min(i+1, n)
		s.emitLocked(Draining{Within: within / time.Duration(n) * time.Duration(i)})
		p.breakLocked(b, 1)
	}
	return n
}

// Undrain accepts sessions and unary acquires again, and says whether that was refused before. Clients that were asked
// to move may still do so.
func (b *Broker) Undrain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.draining || b.closed {
		return false
	}
	b.draining, b.idle = false, make(chan struct{})
	return true
}

// Idle is closed when the broker is draining and no session is left. To be called after Drain.
func (b *Broker) Idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}

func (b *Broker) idleLocked() {
	if !b.draining || len(b.sessions) > 0 {
		return
	}
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
}

// Close ends all sessions and unary waits and waits until the broker does nothing any more, or ctx ends. Leases of
// sessions that asked for it are released, the others run out by themselves: their clients may still be at work.
func (b *Broker) Close(ctx context.Context) error {
	b.mu.Lock()
	b.draining = true
	ended := make([]*Session, 0, len(b.sessions))
	var p piece
	for _, s := range b.sessions {
		cost := 1 + len(s.list) + len(s.waiting)
		s.endLocked(ErrDraining, s.releaseOnEnd)
		ended = append(ended, s)
		p.breakLocked(b, cost)
	}
	b.refuseAllLocked(ErrDraining)
	b.idleLocked()
	b.mu.Unlock()
	for _, s := range ended {
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}
	patience, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	b.waitQuiet(patience)
	b.mu.Lock()
	b.closed = true
	if b.boundAt != nil {
		b.boundAt.Stop()
	}
	b.mu.Unlock()
	b.peers.Leave()
	b.stop(errors.New("the broker is closed"))
	b.logLosses()
	b.watching.Close()
	finished := make(chan struct{})
	go func() { b.wg.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the broker: %w", context.Cause(ctx))
	}
}

// goTakingLocked starts a goroutine that may take a lock, or gives back what was taken for nobody.
func (b *Broker) goTakingLocked(run func()) {
	b.beginTakingLocked()
	go func() {
		run()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.endTakingLocked()
	}()
}

// beginTakingLocked and takenLocked surround what may take a lock, or gives one back.
func (b *Broker) beginTakingLocked() {
	b.taking++
	b.wg.Add(1)
}

func (b *Broker) endTakingLocked() {
	b.wg.Done()
	if b.taking--; b.taking == 0 {
		select {
		case b.quiet <- struct{}{}:
		default:
		}
	}
}

// waitQuiet waits until nothing of that kind is under way. What is left at the end of ctx stays in the store until it runs out.
func (b *Broker) waitQuiet(ctx context.Context) {
	for b.count(func() int { return b.taking }) > 0 {
		select {
		case <-b.quiet:
		case <-ctx.Done():
			return
		}
	}
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return formatID(u)
}

func formatID(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
