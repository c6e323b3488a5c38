package session

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lockd-io/lockd/internal/observe"
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

// TraceReleased logs at debug that a hold was given back, by a request unless id is 0.
func (s *Session) TraceReleased(id uint64, h Hold) {
	if s.of.log.Core().Enabled(zapcore.DebugLevel) {
		s.debug("released", id, fieldsOf(h)...)
	}
}
