package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watching"
)

// Broker serves sessions and unary calls on one Store.
type Broker struct {
	*inspect.Inspector // tells people what is known

	cfg      Config
	rules    request.Rules
	store    lock.Store
	keeper   Keeper
	history  *history.Log
	log      *zap.Logger
	metrics  *metrics
	began    time.Time       // earlier than all stamps
	ctx      context.Context // ends all store calls and background work
	stop     context.CancelCauseFunc
	wg       sync.WaitGroup
	seed     maphash.Seed // divides the names among the shards
	shards   [shardCount]shard
	taking   atomic.Int64 // pieces of work under way that may take, release or undo a lock
	recounts atomic.Int64 // how often all leases are still to be verified
	back     atomic.Int64 // stamp of when the store was last found to be back, or to be another one; 0 if never
	noQuorum atomic.Bool  // at the last probe no majority of several stores could be reached

	sessions *session.Registry
	watching *watching.Hub
	tenants  *limits.Tenants
	finder   *deadlock.Finder
	looking  observe.LogLimiter // bounds how often others are asked who is in the way
	looks    limits.Slots       // of such questions, those under way

	mu       sync.Mutex // guards the fields below
	down     error      // why the store cannot be reached
	identity string     // of the store, at the last probe
}

// New starts a broker. Close ends it.
func New(cfg Config, store lock.Store, keeper Keeper, log *zap.Logger, reg prometheus.Registerer) *Broker {
	ctx, stop := context.WithCancelCause(context.Background())
	b := &Broker{
		cfg: cfg, store: store, keeper: keeper, log: log.Named("broker"), began: time.Now().Add(-time.Second), ctx: ctx,
		stop:     stop,
		history:  history.New(cfg.History),
		down:     errNotProbed,
		seed:     maphash.MakeSeed(),
		watching: watching.New(store),
	}
	for i := range b.shards {
		b.shards[i].init()
	}
	b.metrics = newMetrics(reg)
	b.rules = request.Rules{Limits: cfg.Limits, Session: cfg.Session, KeyPrefix: cfg.KeyPrefix, Denied: b.metrics.denied}
	b.tenants = limits.NewTenants(cfg.Limits, b.metrics.denied)
	b.looks = make(limits.Slots, limits.Looks)
	b.sessions = session.NewRegistry(ctx, session.Config{
		Replica: cfg.Replica, Limits: cfg.Limits, MaxStreamAge: cfg.Session.MaxStreamAge, AnswerTime: cfg.AnswerTime,
		Tenants: b.tenants, Watching: b.watching, Denied: b.metrics.denied, CheckName: b.rules.Name, Log: b.log,
		Heard: keeper.Heard, Begin: b.beginTaking, End: b.endTaking,
	}, store)
	b.metrics.registerStates(reg, b)
	b.Inspector = inspect.New(inspect.Config{
		Replica: cfg.Replica, ID: newID(), Store: store, Local: local{b}, History: b.history, CheckName: b.rules.Name,
		Denied: b.metrics.denied, Log: b.log,
	})
	b.finder = deadlock.New(deadlock.Config{ID: newID(), Store: store, Local: local{b}, Log: b.log})
	b.wg.Go(b.monitor)
	b.wg.Go(func() { b.Greet(ctx) })
	b.wg.Go(func() { b.finder.Run(ctx) })
	return b
}

// Limits are the bounds this broker keeps.
func (b *Broker) Limits() limits.Limits { return b.cfg.Limits }

// SessionTTL is the session TTL of a client that asks for none.
func (b *Broker) SessionTTL() time.Duration { return b.cfg.Session.TTL }

// Replica is this process's name for people.
func (b *Broker) Replica() string { return b.cfg.Replica }

// Tenants lets clients in. A session begins with Arrive.
func (b *Broker) Tenants() *limits.Tenants { return b.tenants }

// Arrive takes a slot for a client that is about to open a session. The caller leaves the slot in any case.
func (b *Broker) Arrive(t lock.Tenant) (*limits.Slot, error) {
	if b.sessions.Draining() {
		return nil, session.ErrDraining
	}
	return b.tenants.Arrive(t)
}

// Drain accepts no more sessions and unary acquires, and asks all clients to move within the given time. It returns how
// many will be asked.
func (b *Broker) Drain(within time.Duration) int { return b.sessions.Drain(within) }

// Undrain takes a Drain back, and says whether there was one.
func (b *Broker) Undrain() bool { return b.sessions.Undrain() }

// Review applies a changed clients file. Sessions of unknown clients, and requests and watches without a right, end at
// once. If holds is set holds without a right end, too: they are lost.
func (b *Broker) Review(holds bool, all limits.Allowances) {
	b.tenants.Allow(all)
	b.sessions.Review(holds)
	var unary []*waiter // to end one takes longer than to find it, and there may be very many of one name
	b.eachShard(func(h *shard) {
		for _, q := range h.queues {
			for w := range q.All() {
				if w.For.sess == nil {
					unary = append(unary, w.For)
				}
			}
		}
	})
	for _, w := range unary {
		w.Review(w.who)
	}
}

// Idle is closed when the broker is draining and no session has a stream. To be called after Drain.
func (b *Broker) Idle() <-chan struct{} { return b.sessions.Idle() }

// Ready is nil when the store can be reached and the broker accepts sessions.
func (b *Broker) Ready() error {
	if b.sessions.Draining() {
		return session.ErrDraining
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

// Close ends all sessions and unary waits and waits until the broker does nothing any more, or ctx ends. Leases of
// sessions that asked for it are released, the others run out by themselves: their clients may still be at work.
func (b *Broker) Close(ctx context.Context) error {
	ended := b.sessions.EndAll()
	b.refuseAll(session.ErrDraining)
	for _, s := range ended {
		select {
		case <-s.Done():
		case <-ctx.Done():
		}
	}
	patience, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	b.waitQuiet(patience)
	b.eachShard(func(h *shard) { h.closed = true })
	b.Leave()
	b.finder.Leave()
	b.stop(errors.New("the broker is closed"))
	b.watching.Close()
	b.wg.Wait()
	if !b.waitQuiet(ctx) {
		return fmt.Errorf("close the broker: %w", context.Cause(ctx))
	}
	return nil
}

// goTaking starts a goroutine that may take a lock, or release or undo one.
func (b *Broker) goTaking(run func()) {
	b.beginTaking()
	go func() {
		defer b.endTaking()
		run()
	}()
}

// beginTaking and endTaking surround each piece of work that may take, release or undo a lock. What it starts calls
// beginTaking before it calls endTaking.
func (b *Broker) beginTaking() { b.taking.Add(1) }

func (b *Broker) endTaking() { b.taking.Add(-1) }

// waitQuiet waits until no such work is under way, or until ctx ends, and says whether none is. A hold that was not
// undone by then stays in the store until it runs out.
func (b *Broker) waitQuiet(ctx context.Context) bool {
	for b.taking.Load() > 0 && ctx.Err() == nil {
		lock.Pause(ctx, time.Millisecond)
	}
	return b.taking.Load() == 0
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
