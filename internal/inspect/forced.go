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
	// forcedHolders is how many holders are told to who is about to release a name by force.
	forcedHolders = 20
	// forcedTime is how long it is remembered why a name was released. Its holders hear of their loss within seconds,
	// but those that have no stream ask later.
	forcedTime = time.Minute
	// maxForced bounds how many names are remembered.
	maxForced = 1000
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

// EndSession has the replica that has a session end it, and returns what it was: nil if none that answered has it.
func (d *Inspector) EndSession(ctx context.Context, id string, f session.Forced) (*Session, Asking, error) {
	answers, asking, err := d.ask(ctx, Question{About: AboutEnding, After: id, Forced: &f})
	for _, k := range answers {
		if len(k.Sessions) > 0 {
			return &k.Sessions[0], asking, err
		}
	}
	return nil, asking, err
}

// end ends a session that another replica, or this one, was asked to end.
func (d *Inspector) end(q Question) (k Knowledge) {
	if q.Forced == nil {
		return k
	}
	if s := d.Local.End(q.After, *q.Forced); s != nil {
		s.Replica = d.Replica
		k.Sessions = []Session{*s}
	}
	return k
}
