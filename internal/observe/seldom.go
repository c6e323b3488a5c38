package observe

import (
	"sync"
	"time"
)

// seldomPause is the time between two lines.
const seldomPause = time.Second

// Seldom is for lines of the log that anybody can cause: one in a second is enough. The zero value is ready.
type Seldom struct {
	mu   sync.Mutex // guards the fields below
	last time.Time  // when a line was logged
	more int        // not logged since
}

// Now says whether a line may be logged now, and how many were not since the last one.
func (s *Seldom) Now() (more int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) < seldomPause {
		s.more++
		return 0, false
	}
	more, s.last, s.more = s.more, now, 0
	return more, true
}
