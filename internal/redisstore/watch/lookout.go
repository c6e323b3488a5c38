package watch

import (
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// Lookout hears and sees what becomes of names. It implements the part of lock.Store for those who wait and watch.
type Lookout struct {
	*script.Caller

	hub        *hub.Hub
	tracker    *tracker
	forcedMark string // what messages of forced releases in our database begin with
}

// New makes a Lookout, with a connection of its own to look with.
func New(cl *script.Caller, h *hub.Hub, d pipe.Dialer, forcedMark string) *Lookout {
	return &Lookout{Caller: cl, hub: h, tracker: newTracker(cl, h, d), forcedMark: forcedMark}
}

// Close ends what looks. The hub is not closed.
func (l *Lookout) Close() { l.tracker.close() }
