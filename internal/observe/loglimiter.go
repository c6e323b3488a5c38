package observe

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// LogLimiter bounds lines of the log that anybody can cause. Metrics have the whole count. The zero value is ready.
type LogLimiter struct {
	mu    sync.Mutex // guards the fields below; nothing is called while it is held
	since time.Time
	lines int // in the second since then
	more  int // not logged since the last line
}

// Now says whether a line may be logged now, if few lines may be in a second. more is how many were not logged since
// the last one.
func (l *LogLimiter) Now(few int) (more int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= time.Second {
		l.since, l.lines = now, 0
	}
	if l.lines >= few {
		l.more++
		return 0, false
	}
	l.lines++
	more, l.more = l.more, 0
	return more, true
}

// Warn logs a line, unless there was one in this second. The caller must hold no mutex.
func (l *LogLimiter) Warn(log *zap.Logger, what string, fields ...zap.Field) {
	if more, ok := l.Now(1); ok {
		log.Warn(what, append(fields, zap.Int(KeyMore, more))...)
	}
}
