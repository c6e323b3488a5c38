package broker

import (
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// namedLocks is how many locks a line of the log names.
	namedLocks = 5
	// namedSessions is how many sessions have a line of their own, each time losses are logged.
	namedSessions = 10
)

// losses is what is to be logged of lost locks. The monitor logs it after each probe, outside of all mutexes: however
// many are lost at once, there are few lines.
type losses struct {
	of    [lock.LostQuorum + 1]lockList // by reason
	ended []endedSession
	// What is beyond namedSessions.
	more      int
	moreLocks int
}

// lockList counts locks and has the first names.
type lockList struct {
	count int
	names []string
}

func (n *lockList) add(name string) {
	n.count++
	if len(n.names) < namedLocks {
		n.names = append(n.names, name)
	}
}

func (n *lockList) fields() []zap.Field {
	return []zap.Field{zap.Int(observe.KeyCount, n.count), zap.Strings(observe.KeyNames, n.names)}
}

// endedSession is a session that ended without Goodbye while it held locks.
type endedSession struct {
	sess  *Session
	locks lockList
}

// noteLoss takes note of a lost lease. That a fixed one ends by itself is nothing to report.
func (b *Broker) noteLoss(l *Lease, reason lock.LostReason) {
	if !l.auto && reason == lock.LostExpired {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses.of[reason].add(l.name)
}

// end takes note of a session that ends with these leases.
func (n *losses) end(s *Session, leases []*Lease) {
	if len(n.ended) >= namedSessions {
		n.more++
		n.moreLocks += len(leases)
		return
	}
	ended := endedSession{sess: s}
	for _, l := range leases[:min(len(leases), namedLocks)] {
		ended.locks.add(l.name)
	}
	ended.locks.count = len(leases)
	n.ended = append(n.ended, ended)
}

// logLosses logs what was lost since it was last called.
func (b *Broker) logLosses() {
	b.mu.Lock()
	lost := b.losses
	b.losses = losses{}
	b.mu.Unlock()
	for reason, n := range lost.of {
		if n.count > 0 {
			b.log.Info("locks were lost", append(n.fields(), zap.Stringer(observe.KeyReason, lock.LostReason(reason)))...)
		}
	}
	for _, e := range lost.ended {
		s := e.sess
		b.log.Info("a session ended with locks held", append(e.locks.fields(),
			zap.String(observe.KeySession, s.ID()), zap.String(observe.KeyClient, s.Client().Name),
			zap.String(observe.KeyPeer, s.Client().Peer),
			zap.NamedError(observe.KeyCause, s.Cause()), zap.Bool(observe.KeyReleased, s.releaseOnEnd))...)
	}
	if lost.more > 0 {
		b.log.Info("more sessions ended with locks held",
			zap.Int(observe.KeySessions, lost.more), zap.Int(observe.KeyCount, lost.moreLocks))
	}
}
