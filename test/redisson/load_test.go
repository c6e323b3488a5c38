package redisson

import (
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
)

// load begins to count for all that takes part in a test. In Redisson two threads take turns: one hears Redis, and the
// one that wants the lock then asks.
func (s *stage) load() *proctest.Load {
	s.t.Helper()
	agent := s.redisson.agent.pid()
	l := proctest.LoadOn(redistest.PID(s.t, s.rc), s.lockd.pid(), agent)
	l.TakeTurns(agent, 2)
	return l
}
