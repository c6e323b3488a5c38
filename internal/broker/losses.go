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
	forced []forcedLoss                  // at most namedForced
	ended  []endedSession
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

// forcedLoss is a lock that was released by force.
type forcedLoss struct {
	session.Lost
	sess  *Session
	owner lock.Owner
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
		b.losses.forced = append(b.losses.forced, forcedLoss{lost, l.sess, l.owner})
	}
}

// end notes a session that ends with these leases.
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
	for _, f := range lost.forced {
		b.log.Info("a lock was released by force", append(fieldsOf(f.Hold),
			zap.String(observe.KeyOwner, string(f.owner)), zap.String(observe.KeySession, f.sess.ID()),
			zap.String(observe.KeyClient, f.sess.Client().Name), zap.String(observe.KeyPeer, f.sess.Client().Peer),
			zap.String(observe.KeyBy, f.By), zap.String(observe.KeyWhy, f.Why))...)
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
