package observe

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// Seldom bounds lines of the log that anybody can cause. Metrics have the whole count. The zero value is ready.
type Seldom struct {
	mu    sync.Mutex // guards the fields below, and nothing is called with it
	since time.Time
	lines int // in the second since then
	more  int // not logged since the last line
}

// Now says whether a line may be logged now, of a few in a second, and how many were not since the last one.
func (s *Seldom) Now(few int) (more int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.since) >= time.Second {
		s.since, s.lines = now, 0
	}
	if s.lines >= few {
		s.more++
		return 0, false
	}
	s.lines++
	more, s.more = s.more, 0
	return more, true
}

// Warn logs a line, of one in a second. No mutex is to be held.
func (s *Seldom) Warn(log *zap.Logger, what string, fields ...zap.Field) {
	if more, ok := s.Now(1); ok {
		log.Warn(what, append(fields, zap.Int(KeyMore, more))...)
	}
}
