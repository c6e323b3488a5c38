package broker

import (
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	// namedLocks is how many locks a line of the log names.
	namedLocks = 5
	// namedSessions is how many sessions have a line of their own, each time losses are logged.
	namedSessions = 10
	// namedForced is how many locks that were released by force have.
	namedForced = 20
)

// losses is what is to be logged of lost locks. The monitor logs it after each probe, outside of all mutexes: however
// many are lost at once, there are few lines.
type losses struct {
	of     [lock.LostQuorum + 1]lockList // by reason
	forced []func()                      // logs one of the first namedForced
	ended  []func()                      // logs one of the first namedSessions that ended without Goodbye with locks held
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

// lostBy is what a client is told of a hold that it lost.
func (b *Broker) lostBy(h session.Hold, reason lock.LostReason) session.Lost {
	lost := session.Lost{Hold: h, Reason: reason}
	if reason == lock.LostForced {
		lost.Forced = b.ForcedBy(h.Name)
	}
	return lost
}

// noteLoss notes a lost lease. That a fixed one ends by itself is nothing to report.
func (b *Broker) noteLoss(l *Lease, lost session.Lost) {
	if !l.auto && lost.Reason == lock.LostExpired {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses.of[lost.Reason].add(l.name)
	if lost.Reason == lock.LostForced && len(b.losses.forced) < namedForced {
		b.losses.forced = append(b.losses.forced, func() {
			c := l.sess.Client()
			b.log.Info("a lock was released by force", append(fieldsOf(lost.Hold),
				zap.String(observe.KeyOwner, string(l.owner)), zap.String(observe.KeySession, l.sess.ID()),
				zap.String(observe.KeyClient, c.Name), zap.String(observe.KeyPeer, c.Peer),
				zap.String(observe.KeyBy, lost.Forced.By), zap.String(observe.KeyWhy, lost.Forced.Why))...)
		})
	}
}

// noteEndLocked notes a session that ends with these leases. Broker.mu is held.
func (b *Broker) noteEndLocked(s *Session, cause error, leases []*Lease) {
	n := &b.losses
	if len(n.ended) >= namedSessions {
		n.more++
		n.moreLocks += len(leases)
		return
	}
	var locks lockList
	for _, l := range leases[:min(len(leases), namedLocks)] {
		locks.add(l.name)
	}
	locks.count = len(leases)
	n.ended = append(n.ended, func() {
		b.log.Info("a session ended with locks held", append(locks.fields(),
			zap.String(observe.KeySession, s.ID()), zap.String(observe.KeyClient, s.Client().Name),
			zap.String(observe.KeyPeer, s.Client().Peer),
			zap.NamedError(observe.KeyCause, cause), zap.Bool(observe.KeyReleased, s.releaseOnEnd))...)
	})
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
	for _, log := range append(lost.forced, lost.ended...) {
		log()
	}
	if lost.more > 0 {
		b.log.Info("more sessions ended with locks held",
			zap.Int(observe.KeySessions, lost.more), zap.Int(observe.KeyCount, lost.moreLocks))
	}
}
