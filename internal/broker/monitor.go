package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
)

// monitor asks the store every probeInterval whether it is there. While it is not, the sessions that hold leases are
// toldPosition AtRisk; when it is back, or came back as another one, every lease is verified at once.
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
	b.mu.Lock()
	defer b.mu.Unlock()
	wasDown, first := b.down != nil, errors.Is(b.down, errNotProbed)
	b.down = err
	switch {
	case err != nil && (first || !wasDown):
		b.log.Warn("the store cannot be reached", zap.Error(err))
		b.metrics.atRisk.Inc()
		b.riskLocked()
	case err != nil:
		b.riskLocked() // sessions that got leases meanwhile
	case wasDown && !first || b.identity != "" && identity != b.identity:
		b.log.Info("the store is back; verifying all leases", zap.Bool(observe.KeyRestarted, identity != b.identity))
		b.verifyLocked()
	}
	if err == nil {
		b.identity = identity
	}
}

// riskLocked tells AtRisk to the sessions that hold leases and were not told.
func (b *Broker) riskLocked() {
	var p piece
	for _, s := range b.sessions {
		p.breakLocked(b, 1)
		if s.atRisk || s.ended || len(s.list) == 0 {
			continue
		}
		p.done += len(s.list)
		s.atRisk = true
		var until time.Time
		for _, l := range s.list {
			if until.IsZero() || l.until.Before(until) {
				until = l.until
			}
		}
		s.emitLocked(AtRisk{Validity: s.validityLocked(until)})
	}
}

// verifyLocked has every lease renewed now, and the heads of the queues try again. Each session at risk is told Safe when all of its leases are.
func (b *Broker) verifyLocked() {
	var p piece
	b.marking = true
	for _, s := range b.sessions {
		p.breakLocked(b, 1+len(s.list))
		if s.ended {
			continue
		}
		all := make([]*Lease, 0, len(s.list))
		for _, l := range s.list {
			if !l.suspect {
				l.suspect = true
				s.suspects++
			}
			all = append(all, l)
		}
		b.keeper.Hurry(all)
	}
	b.marking = false
	for _, s := range b.sessions {
		s.emitSafeLocked()
		p.breakLocked(b, 1)
	}
	for _, q := range b.queues {
		q.wakeLocked() // a head that waits for the store need not wait longer
		p.breakLocked(b, 1)
	}
}

// trustLocked takes a lease from those to be verified: it was renewed, or it is over.
func (s *Session) trustLocked(l *Lease) {
	if l.suspect {
		l.suspect = false
		s.suspects--
	}
	s.emitSafeLocked()
}

func (s *Session) emitSafeLocked() {
	if s.atRisk && s.suspects == 0 && s.b.down == nil && !s.b.marking {
		s.atRisk = false
		s.emitLocked(Safe{})
	}
}

// forced has a lease verified that was freed by force, here or elsewhere. With "" any may have been.
func (b *Broker) forced(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch q := b.queues[name]; {
	case name == "" && !b.recounting && !b.closed:
		b.recounting = true
		b.wg.Go(b.recount)
	case name == "": // one that has just begun or goes on
		b.recountAgain = true
	case q != nil:
		b.keeper.Hurry(q.leasesLocked())
	}
}

const (
	// recountSteps and recountPause spread the verification of all leases over a second: there can be very many, and
	// an interruption concerns all replicas at once.
	recountSteps = 20
	recountPause = 50 * time.Millisecond
)

// recount has all leases verified, some at a time. A forced release that was not heard is thus noticed a second later.
func (b *Broker) recount() {
	for {
		b.mu.Lock()
		b.recountAgain = false
		var all []*Lease
		var p piece
		for _, s := range b.sessions {
			all = append(all, s.list...)
			p.breakLocked(b, 1+len(s.list))
		}
		b.mu.Unlock()
		for some := range slices.Chunk(all, max(1, (len(all)+recountSteps-1)/recountSteps)) {
			if b.ctx.Err() != nil {
				return
			}
			b.keeper.Hurry(some)
			b.pause(recountPause)
		}
		b.mu.Lock()
		if !b.recountAgain {
			b.recounting = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}
