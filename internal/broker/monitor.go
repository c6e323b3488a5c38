package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// monitor asks the store every probeInterval whether it is there. While it is not, the sessions that hold leases are
// told AtRisk; when it is back, or came back as another one, every lease is verified at once.
func (b *Broker) monitor() {
	stop := b.store.ListenForced(b.forced)
	defer stop()
	for b.ctx.Err() == nil {
		ctx, cancel := context.WithTimeoutCause(b.ctx, probeInterval, errors.New("the store did not answer a probe in time"))
		identity, err := b.store.Probe(ctx)
		cancel()
		if b.ctx.Err() == nil {
			b.probed(identity, err)
		}
		b.logLosses()
		b.pause(probeInterval)
	}
}

// errNotProbed is the state of a store that was not asked yet.
var errNotProbed = errors.New("the store was not asked yet")

func (b *Broker) probed(identity string, err error) {
	b.noQuorum.Store(errors.Is(err, lock.ErrNoQuorum))
	b.mu.Lock()
	before, known := b.down, b.identity
	b.down = err
	if err == nil {
		b.identity = identity
	} else {
		b.safe.Store(false)
	}
	b.mu.Unlock()
	first := errors.Is(before, errNotProbed)
	switch back := before != nil && !first; {
	case err != nil && (first || !back):
		b.log.Warn("the store cannot be reached", zap.Error(err))
		b.metrics.atRisk.Inc()
		b.warnAll()
	case err != nil:
		b.warnAll() // sessions that got leases meanwhile
	case back || known != "" && identity != known:
		b.log.Info("the store is back; verifying all leases", zap.Bool(observe.KeyRestarted, identity != known))
		b.verifyAll()
	default:
		b.safe.Store(true)
	}
}

// allSessions are the open sessions at this moment.
func (b *Broker) allSessions() []*Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessionsLocked()
}

func (b *Broker) sessionsLocked() []*Session {
	all := make([]*Session, 0, b.sessions.Len())
	b.sessions.Ascend(func(at sessionAt) bool {
		all = append(all, at.session)
		return true
	})
	return all
}

// warnAll tells AtRisk to the sessions that hold leases and were not told.
func (b *Broker) warnAll() {
	for _, s := range b.allSessions() {
		s.Warn()
	}
}

// verifyAll has every lease renewed now, and the heads of the queues try again. Each session at risk is told Safe when
// all of its leases are.
func (b *Broker) verifyAll() {
	sessions := b.allSessions()
	for _, s := range sessions {
		b.hurry(s.Suspect())
	}
	b.safe.Store(true)
	for _, s := range sessions {
		s.Calm()
	}
	for i := range b.shards { // a head that waits for the store need not wait longer
		b.wakeAll(&b.shards[i])
	}
}

// hurry has leases renewed now.
func (b *Broker) hurry(ls []*Lease) {
	lockEach(ls, func(_ int, l *Lease) {
		if !l.over {
			b.keeper.Hurry(l)
		}
	})
}

func (b *Broker) wakeAll(h *shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.queues {
		q.Wake()
		q.signalLocked()
	}
}

// forced has a lease verified that was freed by force, here or elsewhere. With "" any may have been.
func (b *Broker) forced(name string) {
	if name == "" {
		select {
		case b.recounts <- struct{}{}:
		default:
		}
		return
	}
	h := b.shardOf(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.queues[name]; q != nil {
		for l := range q.leasesLocked() {
			b.keeper.Hurry(l)
		}
	}
}

const (
	// recountSteps and recountPause spread the verification of all leases over a second: there can be very many, and
	// an interruption concerns all replicas at once.
	recountSteps = 20
	recountPause = 50 * time.Millisecond
)

// recount has all leases verified each time a forced release may not have been heard, some at a time. It is noticed a
// second later.
func (b *Broker) recount() {
	for {
		select {
		case <-b.recounts:
		case <-b.ctx.Done():
			return
		}
		var all []*Lease
		for _, s := range b.allSessions() {
			all = append(all, s.Leases()...)
		}
		for some := range slices.Chunk(all, max(1, (len(all)+recountSteps-1)/recountSteps)) {
			b.hurry(some)
			b.pause(recountPause)
		}
	}
}
