package broker

import "sync"

// Outbox is the ordered, bounded list of events that a session's stream has still to send. Events are never
// dropped: a full outbox ends the session. What may be told once instead of often is merged.
type Outbox struct {
	limit int
	wake  chan struct{} // size 1

	mu       sync.Mutex // guards the fields below
	events   []Event
	unlocked map[string]struct{} // names of the Unlocked events in the list
}

func newOutbox(limit int) *Outbox {
	return &Outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// Wake has a value when there may be something to take.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Take returns all events in their order and leaves the outbox empty.
func (o *Outbox) Take() []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = nil
	clear(o.unlocked)
	return events
}

// put appends an event and says whether there was room for it.
func (o *Outbox) put(e Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mergeLocked(e) {
		return true
	}
	if len(o.events) >= o.limit {
		return false
	}
	o.events = append(o.events, e)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// mergeLocked says whether e needs no place of its own: a name's Unlocked is already in the list, or the last event
// is an older HeartbeatAck and nobody waits for either by its id. An ack is merged with its neighbour only, because it speaks for all grants before it.
func (o *Outbox) mergeLocked(e Event) bool {
	switch e := e.(type) {
	case Unlocked:
		if _, there := o.unlocked[e.Name]; there {
			return true
		}
		if o.unlocked == nil {
			o.unlocked = make(map[string]struct{})
		}
		o.unlocked[e.Name] = struct{}{}
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
