package session

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// fewLines is how many lines a second tell of lost locks, for each reason, and of sessions that ended with locks.
	fewLines = 20
	// namedLocks is how many locks a line names.
	namedLocks = 5
)

// Trace logs at debug what a session is told. Debug lines are written with a mutex held: they are for looking
// at few clients. With debug off this costs a comparison.
func (s *Session) Trace(e Event) {
	if !s.of.log.Core().Enabled(zapcore.DebugLevel) {
		return
	}
	switch e := e.(type) {
	case Granted:
		for _, h := range append([]Hold{e.Hold}, e.More...) {
			s.debug("granted", e.ID, fieldsOf(h)...)
		}
	case NotGranted:
		s.debug("not granted", e.ID, zap.NamedError(observe.KeyCause, e.Cause))
	case Queued:
		s.debug("queued", e.ID, zap.Int(observe.KeyPosition, e.Position))
	case Failed:
		s.debug("failed", e.ID, zap.NamedError(observe.KeyCause, e.Err))
	case Lost:
		s.debug("lost", 0, append(fieldsOf(e.Hold), zap.Stringer(observe.KeyReason, e.Reason))...)
	case Released: // was logged with its hold
	default:
		s.debug("told", 0, zap.String(observe.KeyAnswer, fmt.Sprintf("%T", e)))
	}
}

// debug logs something of a session, and of a request of it unless id is 0.
func (s *Session) debug(what string, id uint64, more ...zap.Field) {
	fields := []zap.Field{zap.String(observe.KeySession, s.ID()), zap.String(observe.KeyClient, s.Client().Name)}
	if id != 0 {
		fields = append(fields, zap.Uint64(observe.KeyRequestID, id))
	}
	s.of.log.Debug(what, append(fields, more...)...)
}

func fieldsOf(h Hold) []zap.Field {
	return []zap.Field{
		zap.String(observe.KeyName, h.Name), zap.Stringer(observe.KeyKind, h.Kind), zap.String(observe.KeyHolder, h.Holder),
		zap.Uint64(observe.KeyFence, uint64(h.Fence)),
	}
}

// TraceReleased logs at debug that a hold was released, by a request unless id is 0.
func (s *Session) TraceReleased(id uint64, h Hold) {
	if s.of.log.Core().Enabled(zapcore.DebugLevel) {
		s.debug("released", id, fieldsOf(h)...)
	}
}

// who is the session in the log.
func (s *Session) who() []zap.Field {
	c := s.Client()
	return []zap.Field{
		zap.String(observe.KeySession, s.id), zap.String(observe.KeyClient, c.Name), zap.String(observe.KeyPeer, c.Peer),
	}
}

// logLost logs that a lease of an owner was lost. A fixed one that ends by itself is not logged. The mutex of the name
// is held: the log is written by a goroutine.
func (s *Session) logLost(lost Lost, owner lock.Owner, auto bool) {
	if !auto && lost.Reason == lock.LostExpired {
		return
	}
	more, ok := s.of.losses[lost.Reason].Now(fewLines)
	if !ok {
		return
	}
	fields := append(append(fieldsOf(lost.Hold), s.who()...), zap.String(observe.KeyOwner, string(owner)),
		zap.Stringer(observe.KeyReason, lost.Reason), zap.Int(observe.KeyMore, more))
	if lost.Reason == lock.LostForced {
		fields = append(fields, zap.String(observe.KeyBy, lost.Who()), zap.String(observe.KeyWhy, lost.Forced.Why))
	}
	s.of.goes(func() { s.of.log.Info("a lock was lost", fields...) })
}

// logEnd logs that the session ended with these leases, unless it ended by Goodbye or went on elsewhere.
func (s *Session) logEnd(leases []Lease) {
	if s.cause == nil || len(leases) == 0 || errors.Is(s.cause, ErrSuperseded) {
		return
	}
	var names []string
	for _, l := range leases[:min(len(leases), namedLocks)] {
		names = append(names, l.Hold().Name)
	}
	if more, ok := s.of.ends.Now(fewLines); ok {
		s.of.log.Info("a session ended with locks held", append(s.who(),
			zap.Int(observe.KeyCount, len(leases)), zap.Strings(observe.KeyNames, names), zap.Int(observe.KeyMore, more),
			zap.NamedError(observe.KeyCause, s.cause), zap.Bool(observe.KeyReleased, s.releases))...)
	}
}
