package session

import (
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/limits"
)

// eventBytes is about what an event takes besides its texts.
const eventBytes = 256

// Outbox is the ordered, bounded list of events that a session's stream has still to send. Events are never dropped.
// While there are many the stream must not read requests, see Pressure; pushes still have room. A full outbox ends the
// session. What may be told once instead of often is merged.
type Outbox struct {
	limit int
	wake  chan struct{} // size 1

	mu       sync.Mutex // guards the fields below
	leaving  []Event    // are taken first; nothing is merged with them any more
	events   []Event
	bytes    int                // of both lists, about
	relief   chan struct{}      // closed when there is room again; nil while there is
	unlocked map[string]unlocks // of the Unlocked events in the list, by name
	ends     int                // Unlocked events in the list
	lists    int                // HoldList events in the list
	full     bool               // there was no room for an event: nothing is told after it
}

// unlocks are the Unlocked events of one name in the list.
type unlocks struct {
	n    int
	last int // index of the last one
}

func newOutbox(limit int) *Outbox {
	return &Outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// Wake has a value when there may be something to take.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// TakeSome takes the first events: at most most, and only while those before them have less than bytes.
func (o *Outbox) TakeSome(most, bytes int) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.leaving) == 0 {
		o.leaving, o.events = o.events, nil
		clear(o.unlocked)
		o.ends = 0
	}
	n, size := 0, 0
	for n < min(most, len(o.leaving)) && size < bytes {
		if _, isList := o.leaving[n].(HoldList); isList {
			o.lists--
		}
		size += sizeOf(o.leaving[n])
		n++
	}
	piece := o.leaving[:n]
	if n < len(o.leaving) { // let go of what was taken
		piece = slices.Clone(piece)
		clear(o.leaving[:n])
	}
	if o.leaving = o.leaving[n:]; len(o.leaving) == 0 {
		o.leaving = nil
	}
	o.bytes -= size
	if o.relief != nil && o.lenLocked() < limits.Answers/2 && o.bytes < limits.AnswerBytes/2 {
		close(o.relief)
		o.relief = nil
	}
	return piece
}

// Pressure is nil while there is room for answers. Otherwise no request should be read until it is closed.
func (o *Outbox) Pressure() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.relief == nil && (o.lenLocked() >= limits.Answers || o.bytes >= limits.AnswerBytes) {
		o.relief = make(chan struct{})
	}
	return o.relief
}

func (o *Outbox) lenLocked() int { return len(o.leaving) + len(o.events) }

// sizeOf is about how many bytes an event takes.
func sizeOf(e Event) int { return eventBytes + e.texts() }

// pages is how many lists of holds nobody took yet.
func (o *Outbox) pages() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lists
}

// put appends an event and says whether there was room for it.
func (o *Outbox) put(e Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.full && o.mergeLocked(e) {
		return true
	}
	if o.full = o.full || o.lenLocked() >= o.limit; o.full {
		return false
	}
	switch e := e.(type) {
	case Unlocked:
		if o.unlocked == nil {
			o.unlocked = make(map[string]unlocks)
		}
		o.unlocked[e.Name] = unlocks{o.unlocked[e.Name].n + 1, len(o.events)}
		o.ends++
	case HoldList:
		o.lists++
	}
	o.events = append(o.events, e)
	o.bytes += sizeOf(e)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// mergeLocked merges e with an earlier event if it can, and says whether it did: if there are many Unlocked in the
// list, one of this name among them, or if the last event is an older HeartbeatAck and nobody waits for either by its
// id. An ack is merged with its neighbour only, because it speaks for all grants before it.
func (o *Outbox) mergeLocked(e Event) bool {
	switch e := e.(type) {
	case Unlocked:
		u := o.unlocked[e.Name]
		if u.n >= limits.UnlocksOfName || u.n > 0 && o.ends >= limits.UnlocksOfAllNames {
			e.Merged += o.events[u.last].(Unlocked).Merged + 1
			o.events[u.last] = e
			return true
		}
	case HeartbeatAck:
		if n := len(o.events); n > 0 {
			if last, isAck := o.events[n-1].(HeartbeatAck); isAck && e.ID == 0 && last.ID == 0 {
				o.events[n-1] = e
				return true
			}
		}
	}
	return false
}
