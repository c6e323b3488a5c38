package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// UnlockCause is what ended a hold.
type UnlockCause string

// The causes. Others may come with a newer lockd.
const (
	// UnlockUnknown: lockd could not observe the name when the hold ended.
	UnlockUnknown UnlockCause = "UNKNOWN"
	// UnlockReleased: its holder released it.
	UnlockReleased UnlockCause = "RELEASED"
	// UnlockHandedOver: its holder released it, and the next waiter was given the lock at once.
	UnlockHandedOver UnlockCause = "HANDED_OVER"
	// UnlockExpired: its lease ended.
	UnlockExpired UnlockCause = "EXPIRED"
	// UnlockForced: somebody released it by force.
	UnlockForced UnlockCause = "FORCED"
	// UnlockDataLoss: lockd's store lost its data.
	UnlockDataLoss UnlockCause = "DATA_LOSS"
)

// Unlocked says that a hold of a name ended. The name may be locked again already.
type Unlocked struct {
	// Name is the lock.
	Name string
	// Cause is what ended the hold.
	Cause UnlockCause
	// Fence is that of the hold, 0 if it is not known.
	Fence uint64
	// Merged is how many earlier ends of holds this event tells as well, because they were not read in time.
	Merged uint32
	// Gap says that the connection was interrupted: the name may have been unlocked before, or not at all. Such an
	// event has no cause and no fence.
	Gap bool
}

// watches knows who watches what.
type watches struct {
	mu     sync.Mutex // guards the fields below; comes before Client.mu
	byName map[string]map[*watcher]struct{}
	told   map[string][]endOf // by name: the ends that were told last
}

// endOf is what tells the end of a hold from another one of its name: the hold, of permits, or the fence.
type endOf struct {
	hold  string
	fence uint64
}

// keptEnds is how many ends of a name are known again when the server repeats them.
const keptEnds = 256

// maxUnread is how many events a watcher's channel holds. Then the oldest is told with a later one.
const maxUnread = 64

// watcher is one Watch.
type watcher struct {
	name   string
	events chan Unlocked

	// Guarded by watches.mu.
	told   bool // the server was asked
	agreed bool // the server has agreed
}

// Watch tells of each end of a hold of a name, once, until ctx ends; then the channel is closed. It is also closed by
// Close, and when the server refuses to go on watching after an interruption. A reader that is slow gets several events
// as one, which counts them. After an interruption comes an event with Gap.
//
// A server that does not agree within the time of WithAnswerTimeout, or WithConnectWait if that is longer, is
// ErrUnavailable, whatever deadline ctx has: that is for what comes afterwards. Nothing is watched then.
//
// Watch is for display, caches and the like. To get a lock use Lock: it is woken in turn, Watch wakes everybody.
func (c *Client) Watch(ctx context.Context, name string) (<-chan Unlocked, error) {
	w := &watcher{name: name, events: make(chan Unlocked, maxUnread)}
	c.watches.add(w)
	if err := c.askWatch(ctx, w); err != nil {
		c.unwatch(w)
		return nil, fmt.Errorf("watch %s: %w", quoted(name), err)
	}
	context.AfterFunc(ctx, func() { c.unwatch(w) })
	return w.events, nil
}

func (c *Client) askWatch(ctx context.Context, w *watcher) error {
	if err := checkName(w.name, nil); err != nil {
		return err
	}
	bound := max(c.settings.answerWithin, c.settings.connectWait)
	answerBy := c.now() + instant(bound)
	connect, cancel := context.WithTimeoutCause(ctx, bound, ErrUnavailable)
	defer cancel()
	for {
		s, err := c.usable(connect, true)
		if err != nil {
			return err
		}
		if err := checkName(w.name, s); err != nil {
			return err
		}
		c.watches.tell(w)
		a := s.do(ctx, newCall(watchRequest(w.name)), max(time.Duration(answerBy-c.now()), 1))
		switch {
		case a.err == nil:
			// A session that is being left does not count; the next one is asked for what is agreed from now on.
			if err := c.watches.agree(w); err != nil || c.isCurrent(s) {
				return err
			}
		case errors.Is(a.err, ErrDraining), errors.Is(a.err, errSessionOver):
			c.forget(s)
		case errors.Is(a.err, errNoAnswer):
			return unavailable(a.err)
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
				c.unlocked(Unlocked{Name: name, Cause: UnlockUnknown, Gap: true}, "")
			case !errors.Is(a.err, errSessionOver):
				c.watches.end(name)
			}
		}})
	}
}

// unlocked tells the watchers of a name, unless it is a repeat.
func (c *Client) unlocked(e Unlocked, hold string) {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	if c.watches.repeatsLocked(e, hold) {
		return
	}
	for w := range c.watches.byName[e.Name] {
		if w.agreed {
			w.put(e)
		}
	}
}

// repeatsLocked says whether an end was told before, and remembers it.
func (ws *watches) repeatsLocked(e Unlocked, hold string) bool {
	of := endOf{hold: hold}
	if hold == "" {
		of.fence = e.Fence
	}
	if of == (endOf{}) || ws.byName[e.Name] == nil {
		return false
	}
	told := ws.told[e.Name]
	if slices.Contains(told, of) {
		return e.Merged == 0 // else it tells others as well
	}
	if ws.told == nil {
		ws.told = make(map[string][]endOf)
	}
	ws.told[e.Name] = append(told[max(0, len(told)+1-keptEnds):], of)
	return false
}

// put gives an event to a watcher, in place of the oldest one if too many were not read. Only the owner of watches.mu
// puts.
func (w *watcher) put(e Unlocked) {
	for {
		select {
		case w.events <- e:
			return
		default:
		}
		select {
		case old := <-w.events:
			e.Gap = e.Gap || old.Gap
			e.Merged += old.Merged + 1
		default:
		}
	}
}

func unlockedOf(u *lockdv1.Unlocked) Unlocked {
	cause := UnlockUnknown
	if u.GetCause() != lockdv1.Unlocked_CAUSE_UNSPECIFIED {
		cause = UnlockCause(strings.TrimPrefix(u.GetCause().String(), "CAUSE_"))
	}
	return Unlocked{Name: u.GetName(), Cause: cause, Fence: u.GetFence(), Merged: u.GetMerged()}
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
	delete(c.watches.told, w.name)
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

// agree notes that the server watches.
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
