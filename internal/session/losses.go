package session

import (
	"errors"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// namedLocks is how many locks a line of the log names.
	namedLocks = 5
	// namedSessions is how many sessions have a line of their own, each time losses are logged.
	namedSessions = 10
	// namedForced is how many locks that were released by force have.
	namedForced = 20
)

// losses is what is to be logged of lost locks. It is logged once a second, outside of all mutexes: however many are
// lost at once, there are few lines.
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

// who is the session in the log.
func (s *Session) who() []zap.Field {
	c := s.Client()
	return []zap.Field{
		zap.String(observe.KeySession, s.id), zap.String(observe.KeyClient, c.Name), zap.String(observe.KeyPeer, c.Peer),
	}
}

// TellLost tells that a lease of an owner was lost. That a fixed one ends by itself is nothing to log.
func (s *Session) TellLost(lost Lost, owner lock.Owner, auto bool) {
	s.Tell(lost)
	if !auto && lost.Reason == lock.LostExpired {
		return
	}
	r := s.of
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses.of[lost.Reason].add(lost.Hold.Name)
	if lost.Reason == lock.LostForced && len(r.losses.forced) < namedForced {
		r.losses.forced = append(r.losses.forced, func() {
			r.log.Info("a lock was released by force", append(append(fieldsOf(lost.Hold), s.who()...),
				zap.String(observe.KeyOwner, string(owner)),
				zap.String(observe.KeyBy, lost.Forced.By), zap.String(observe.KeyWhy, lost.Forced.Why))...)
		})
	}
}

// noteEndLocked notes a session that ends with these leases. Registry.mu is held.
func (r *Registry) noteEndLocked(s *Session, leases []Lease) {
	if s.cause == nil || len(leases) == 0 || errors.Is(s.cause, ErrSuperseded) {
		return
	}
	n := &r.losses
	if len(n.ended) >= namedSessions {
		n.more++
		n.moreLocks += len(leases)
		return
	}
	var locks lockList
	for _, l := range leases[:min(len(leases), namedLocks)] {
		locks.add(l.Hold().Name)
	}
	locks.count = len(leases)
	n.ended = append(n.ended, func() {
		r.log.Info("a session ended with locks held", append(append(locks.fields(), s.who()...),
			zap.NamedError(observe.KeyCause, s.cause), zap.Bool(observe.KeyReleased, s.opening.ReleaseOnEnd))...)
	})
}

// LogLosses logs what was lost since it was last called.
func (r *Registry) LogLosses() {
	r.mu.Lock()
	lost := r.losses
	r.losses = losses{}
	r.mu.Unlock()
	for reason, n := range lost.of {
		if n.count > 0 {
			r.log.Info("locks were lost", append(n.fields(), zap.Stringer(observe.KeyReason, lock.LostReason(reason)))...)
		}
	}
	for _, log := range append(lost.forced, lost.ended...) {
		log()
	}
	if lost.more > 0 {
		r.log.Info("more sessions ended with locks held",
			zap.Int(observe.KeySessions, lost.more), zap.Int(observe.KeyCount, lost.moreLocks))
	}
}
