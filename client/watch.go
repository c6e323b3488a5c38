package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
	// Merged is how many earlier ends of holds this event stands for as well: they were not told or read in time.
	Merged uint32
	// Gap says that the connection was interrupted: holds may have ended meanwhile, or none. Such an event has no cause
	// and no fence, unless it was merged into a later one.
	Gap bool
	// Err says why the server refuses to watch the name any more, as ErrForbidden when the right was taken away. Such an
	// event is the last one, and has Gap.
	Err error
}

// watched is a name that is watched.
type watched struct {
	watchers map[chan Unlocked]struct{}
	told     []endOf // the ends that were told last
}

// endOf tells the end of a hold from others of its name: by the hold if it is one of permits, else by the fence.
type endOf struct {
	hold  string
	fence uint64
}

// keptEnds is how many ends of a name are remembered, to know them again when the server repeats them.
const keptEnds = 256

// maxUnread is how many events a watcher's channel holds. Of more the oldest is merged into the next.
const maxUnread = 64

// Watch returns a channel that tells of each end of a hold of a name, once. The channel is closed when ctx ends, by
// Close, and, after an event with Err, when the server refuses to go on. A slow reader gets several events as one,
// which counts them. After an interruption comes an event with Gap.
//
// Watch returns ErrUnavailable if the server does not agree within the time of WithAnswerTimeout, or of WithConnectWait
// if that is longer; nothing is watched then. A deadline of ctx does not change this bound.
//
// Watch is for display, caches and the like. To get a lock use Lock: it is woken in turn, Watch wakes everybody.
func (c *Client) Watch(ctx context.Context, name string) (<-chan Unlocked, error) {
	events := make(chan Unlocked, maxUnread)
	t := terms{patient: true, by: c.now() + instant(max(c.settings.answerWithin, c.settings.connectWait))}
	// Watched before the server is asked, so that a session that begins meanwhile is asked, too; and once, as a refusal
	// closes the channel.
	q := &inquiry{name: name, message: watchRequest(name), each: sync.OnceFunc(func() { c.watch(name, events) })}
	if _, err := c.inquire(ctx, q, t); err != nil {
		c.unwatch(name, events)
		return nil, fmt.Errorf("watch %s: %w", quoted(name), err)
	}
	context.AfterFunc(ctx, func() { c.unwatch(name, events) })
	return events, nil
}

func watchRequest(name string) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Watch{Watch: &lockdv1.Watch{Name: name}}}
}

// watchAgainLocked asks a session that begins, or goes on, for all that was watched before.
func (s *session) watchAgainLocked() {
	c := s.client
	for name := range c.watched {
		s.submitLocked(&call{request: watchRequest(name), then: func(a answer) {
			switch {
			case a.err == nil:
				c.unlockedLocked(Unlocked{Name: name, Cause: UnlockUnknown, Gap: true}, "")
			case !errors.Is(a.err, errSessionOver):
				c.endWatchLocked(name, a.err)
			}
		}})
	}
}

// unlockedLocked tells the watchers of a name, unless it is a repeat.
func (c *Client) unlockedLocked(e Unlocked, hold string) {
	w := c.watched[e.Name]
	if w == nil || w.repeats(e, hold) {
		return
	}
	for events := range w.watchers {
		put(events, e)
	}
}

// repeats says whether an end was told before, and remembers it.
func (w *watched) repeats(e Unlocked, hold string) bool {
	of := endOf{hold: hold}
	if hold == "" {
		of.fence = e.Fence
	}
	switch {
	case of == endOf{}:
		return false
	case slices.Contains(w.told, of):
		return e.Merged == 0 // else it tells others as well
	}
	w.told = append(w.told[max(0, len(w.told)+1-keptEnds):], of)
	return false
}

// put gives an event to a watcher, merged with the oldest one if the channel is full. The caller holds Client.mu.
func put(events chan Unlocked, e Unlocked) {
	for {
		select {
		case events <- e:
			return
		default:
		}
		select {
		case old := <-events:
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

func (c *Client) watch(name string, events chan Unlocked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched[name] == nil {
		c.watched[name] = &watched{watchers: make(map[chan Unlocked]struct{})}
	}
	c.watched[name].watchers[events] = struct{}{}
}

// unwatch ends a Watch, and tells the server if it was the last of its name.
func (c *Client) unwatch(name string, events chan Unlocked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watched[name]
	if w == nil {
		return
	}
	if _, ok := w.watchers[events]; !ok {
		return
	}
	close(events)
	delete(w.watchers, events)
	if len(w.watchers) > 0 {
		return
	}
	delete(c.watched, name)
	if c.session != nil {
		c.session.submitLocked(&call{request: &lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Unwatch{Unwatch: &lockdv1.Unwatch{Name: name}},
		}})
	}
}

// endWatchesLocked is endWatchLocked for all names.
func (c *Client) endWatchesLocked(refused error) {
	for name := range c.watched {
		c.endWatchLocked(name, refused)
	}
}

// endWatchLocked closes the channels of a name that is not watched any more. If the server refuses the name they tell
// why first.
func (c *Client) endWatchLocked(name string, refused error) {
	w := c.watched[name]
	delete(c.watched, name)
	if w == nil {
		return
	}
	for events := range w.watchers {
		if refused != nil {
			put(events, Unlocked{Name: name, Cause: UnlockUnknown, Gap: true, Err: refused})
		}
		close(events)
	}
}
