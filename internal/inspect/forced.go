package inspect

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/session"
)

const (
	// announceTime bounds how long a forced release waits for what is known of the name.
	announceTime = 3 * time.Second
	// forcedHolders is how many holders Announce returns at most.
	forcedHolders = 20
	// forcedTime is how long the reason of a forced release is remembered. Holders hear of their loss within seconds, but
	// those without a stream ask later.
	forcedTime = time.Minute
	// maxForced bounds how many names are remembered.
	maxForced = 1000
	// endTime bounds how long a replica waits until the store knows that a session has ended. It is shorter than the time
	// for which other replicas wait for the answer.
	endTime = 700 * time.Millisecond
)

// Announce tells all replicas that a name is about to be released by force, and returns who holds it, at most 20. A
// replica that it does not reach cannot tell its clients by whom and why.
func (d *Inspector) Announce(ctx context.Context, name string, f session.Forced) ([]Holder, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, announceTime, errors.New("it took too long to find out who holds it"))
	defer cancel()
	in, err := d.inspect(ctx, name, Question{Holders: forcedHolders, Forced: &f})
	return in.Holders, err
}

// ForcedBy says who released a name by force a moment ago, and why: zero if that is not known.
func (d *Inspector) ForcedBy(name string) session.Forced { return d.forced.of(name) }

// forcedNames remember why names were released by force, for their holders. Nothing else depends on them.
type forcedNames struct {
	mu     sync.Mutex // guards the field below
	byName map[string]forcedName
}

type forcedName struct {
	session.Forced
	until time.Time
}

// add remembers one, unless there are too many.
func (n *forcedNames) add(name string, f session.Forced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byName == nil {
		n.byName = make(map[string]forcedName)
	}
	now := time.Now()
	maps.DeleteFunc(n.byName, func(_ string, f forcedName) bool { return now.After(f.until) })
	if len(n.byName) < maxForced {
		n.byName[name] = forcedName{f, now.Add(forcedTime)}
	}
}

func (n *forcedNames) of(name string) session.Forced {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.byName[name]; time.Now().Before(f.until) {
		return f.Forced
	}
	return session.Forced{}
}
