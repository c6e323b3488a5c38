package observe

import (
	"cmp"
	"sync"
	"time"
)

// Seldom is for lines of the log that anybody can cause. The zero value is ready.
type Seldom struct {
	Pause time.Duration // between two lines; 0 is a second

	mu   sync.Mutex // guards the fields below
	last time.Time  // when a line was logged
	more int        // not logged since
}

// Now says whether a line may be logged now, and how many were not since the last one.
func (s *Seldom) Now() (more int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) < cmp.Or(s.Pause, time.Second) {
		s.more++
		return 0, false
	}
	more, s.last, s.more = s.more, now, 0
	return more, true
}
