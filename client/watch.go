package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Unlocked says that a name was unlocked: released, released by force, or expired. It may be locked again already.
type Unlocked struct {
	// Name is the lock.
	Name string
	// Gap says that the connection was interrupted: the name may have been unlocked before, or not at all.
	Gap bool
}

// watches knows who watches what.
type watches struct {
	mu     sync.Mutex // guards the field below; comes before Client.mu
	byName map[string]map[*watcher]struct{}
}

// watcher is one Watch. Its channel holds one event; several are told as one.
type watcher struct {
	name   string
	events chan Unlocked

	// Guarded by watches.mu.
	told   bool // the server was asked
	agreed bool // the server has agreed
}

// Watch tells when a name is unlocked, until ctx ends; then the channel is closed. It is also closed by Close, and
// when the server refuses to go on watching after an interruption. A reader that is slow gets several events as
// one. After an interruption comes an event with Gap.
//
// Watch is for display, caches and the like. To get a lock use Lock: it is woken in turn, Watch wakes everybody.
func (c *Client) Watch(ctx context.Context, name string) (<-chan Unlocked, error) {
	w := &watcher{name: name, events: make(chan Unlocked, 1)}
	c.watches.add(w)
	if err := c.askWatch(ctx, w); err != nil {
		c.unwatch(w)
		return nil, fmt.Errorf("watch %q: %w", name, err)
	}
	context.AfterFunc(ctx, func() { c.unwatch(w) })
	return w.events, nil
}

func (c *Client) askWatch(ctx context.Context, w *watcher) error {
	for {
		s, err := c.usable(ctx, true)
		if err != nil {
			return err
		}
		if err := checkText("INVALID_NAME", "the name", w.name, s.limits.GetNameBytes()); err != nil {
			return err
		}
		c.watches.tell(w)
		a := s.do(ctx, newCall(watchRequest(w.name)), 0)
		switch {
		case a.err == nil:
			// A session that is being left does not count; the next one is asked for what is agreed from now on.
			if err := c.watches.agree(w); err != nil || c.isCurrent(s) {
				return err
			}
		case errors.Is(a.err, ErrDraining), errors.Is(a.err, errSessionOver):
			c.forget(s)
		default:
			return a.err
		}
	}
}

func watchRequest(name string) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Watch{Watch: &lockdv1.Watch{Name: name}}}
}

// watchAgain asks a new session for all that was watched before.
func (c *Client) watchAgain(s *session, names []string) {
	for _, name := range names {
		s.submit(&call{request: watchRequest(name), then: func(a answer) {
			switch {
			case a.err == nil:
				c.unlocked(name, true)
			case !errors.Is(a.err, errSessionOver):
				c.watches.end(name)
			}
		}})
	}
}

// unlocked tells the watchers of a name.
func (c *Client) unlocked(name string, gap bool) {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	for w := range c.watches.byName[name] {
		if w.agreed {
			w.put(Unlocked{Name: name, Gap: gap})
		}
	}
}

// put gives an event to a watcher, in place of one that was not read. Only the owner of watches.mu puts.
func (w *watcher) put(e Unlocked) {
	select {
	case old := <-w.events:
		e.Gap = e.Gap || old.Gap
	default:
	}
	w.events <- e
}

// unwatch ends a Watch, and tells the server if it was the last of its name.
func (c *Client) unwatch(w *watcher) {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	ws := c.watches.byName[w.name]
	if _, ok := ws[w]; !ok {
		return
	}
	close(w.events)
	delete(ws, w)
	if len(ws) > 0 {
		return
	}
	delete(c.watches.byName, w.name)
	if !w.told {
		return
	}
	if s, err := c.currentSession(); s != nil && err == nil {
		s.submit(&call{request: &lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Unwatch{Unwatch: &lockdv1.Unwatch{Name: w.name}},
		}})
	}
}

func (ws *watches) add(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byName == nil {
		ws.byName = make(map[string]map[*watcher]struct{})
	}
	if ws.byName[w.name] == nil {
		ws.byName[w.name] = make(map[*watcher]struct{})
	}
	ws.byName[w.name][w] = struct{}{}
}

func (ws *watches) tell(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.told = true
}

// agree takes note that the server watches.
func (ws *watches) agree(w *watcher) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, ok := ws.byName[w.name][w]; !ok {
		return ErrClosed
	}
	w.agreed = true
	return nil
}

// names are those that some watcher was promised to hear of.
func (ws *watches) names() []string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var names []string
	for name, watchers := range ws.byName {
		for w := range watchers {
			if w.agreed {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// end closes the channels of a name.
func (ws *watches) end(name string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.byName[name] {
		if w.agreed {
			close(w.events)
			delete(ws.byName[name], w)
		}
	}
}

// close ends all.
func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for name, watchers := range ws.byName {
		for w := range watchers {
			close(w.events)
		}
		delete(ws.byName, name)
	}
}
