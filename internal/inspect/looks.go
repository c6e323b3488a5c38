package inspect

import (
	"context"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// All who watch one name, such as the observers of an election, look at it at the same moment: when it changes. So they
// share calls of the store. Nobody gets the result of a call that began before he asked.

// looks are the calls that are under way.
type looks struct {
	mu sync.Mutex // guards the fields below, and look.behind
	of map[string]*look
}

// look is one call.
type look struct {
	behind *look         // the one after it, for those who came since it began; nil if nobody did
	done   chan struct{} // closed when it is over; the fields below are set before
	st     lock.State
	err    error
	left   bool // its caller gave up before its end
}

// join returns the call that somebody who comes now waits for, and the one before it, if any. If mine, he makes it.
func (ls *looks) join(name string) (l, before *look, mine bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.of == nil {
		ls.of = make(map[string]*look)
	}
	switch before = ls.of[name]; {
	case before == nil:
		l = &look{done: make(chan struct{})}
		ls.of[name] = l
		return l, nil, true
	case before.behind == nil:
		before.behind = &look{done: make(chan struct{})}
		return before.behind, before, true
	default:
		return before.behind, before, false
	}
}

// end ends a call, made or given up.
func (ls *looks) end(name string, l *look) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch first := ls.of[name]; {
	case first == nil:
	case first != l: // it still waits behind first
		first.behind = nil
	case l.behind != nil:
		ls.of[name] = l.behind
	default:
		delete(ls.of, name)
	}
	close(l.done)
}

// look is Store.Look, shared by all who want it at the same time.
func (d *Inspector) look(ctx context.Context, name string) (lock.State, error) {
	for {
		l, before, mine := d.looks.join(name)
		if mine {
			return d.lookFor(ctx, name, l, before)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return lock.State{}, context.Cause(ctx)
		}
		if !l.left {
			return l.st, l.err
		}
	}
}

// lookFor makes the call l when the one before it is over.
func (d *Inspector) lookFor(ctx context.Context, name string, l, before *look) (lock.State, error) {
	defer d.looks.end(name, l)
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			l.left = true
			return lock.State{}, context.Cause(ctx)
		}
	}
	l.st, l.err = d.Store.Look(ctx, name)
	l.left = l.err != nil && ctx.Err() != nil
	return l.st, l.err
}
