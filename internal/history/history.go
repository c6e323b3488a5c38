// Package history remembers what happened to names lately.
//
// # What it promises
//
// A Log has a fixed number of events, the last ones, whatever they are about and however long their texts are. They are
// copied into memory without pointers, which the garbage collector does not scan. That memory is used again: to add an
// event to a full Log allocates nothing, unless somebody reads or texts get longer. Add may be called with any mutex
// held: it holds the Log's own while it copies some hundred bytes, and at each 256th event those of all 256. It costs
// about as much as two reads of a clock. A long annotation is cut.
//
// # What it does not promise
//
// Nothing is stored: a replica that ends takes its events along. Only what people look at depends on them.
package history

import (
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What happened to a name.
type What uint8

// What can happen.
const (
	Granted      What = iota + 1
	Queued            // a request has to wait
	Left              // a request that waited ended without a grant
	Released          // by its holder
	HandedOver        // released, and granted to the next one in the same moment
	Lost              // a hold ended without a release
	Forced            // somebody freed the name by force
	LimitChanged      // of a semaphore
	MovedAway         // the session of a hold goes on at another replica
	Resumed           // the session of a hold has come from another replica
)

// Event is one thing that happened to a name. What does not apply is zero.
type Event struct {
	Name       string        `json:"-"`
	Owner      lock.Owner    `json:"owner,omitempty"`
	Client     *Client       `json:"client,omitempty"`
	Annotation string        `json:"annotation,omitempty"`
	Why        *Why          `json:"why,omitempty"`
	Fence      lock.Fence    `json:"fence,omitempty"`
	Waited     time.Duration `json:"waited,omitempty"` // of a request that was granted, or left
	Held       time.Duration `json:"held,omitempty"`   // of a hold that ended, or goes on elsewhere
	Lease      time.Duration `json:"lease,omitempty"`  // of a grant that nobody renews
	Permits    uint32        `json:"permits,omitempty"`
	Kind       lock.Kind     `json:"kind,omitempty"`
	What       What          `json:"what"`
	Number     uint64        `json:"-"` // greater than those of events that were added before
}

// Client is who holds a name or asks for it. Empty ones are not remembered.
type Client struct {
	Name     string `json:"name,omitempty"`
	Peer     string `json:"peer,omitempty"`
	Identity string `json:"identity,omitempty"`
}

// Why says why something happened, and who did it, if that was not the client.
type Why struct {
	Cause string `json:"cause,omitempty"` // as metrics name it
	By    string `json:"by,omitempty"`
	Text  string `json:"text,omitempty"` // in the words of who did it
}

// Log is a ring of chunks of events. A nil Log remembers nothing.
type Log struct {
	began  time.Time
	events uint64

	mu      sync.Mutex // guards the fields below
	added   uint64
	last    chunk // events are added here, always to the same memory: what was not touched for a second is slow
	ring    []chunk
	looking int // how many read: the memory that they see is not used again
}

// chunkEvents is how many events a chunk has.
const chunkEvents = 256

// chunk has the records of events, one behind the other.
type chunk []byte

// New is a Log that keeps the last events, as many as events says; nil if that is 0.
func New(events int) *Log {
	if events == 0 {
		return nil
	}
	return &Log{began: time.Now(), events: uint64(events), ring: make([]chunk, events/chunkEvents+1)}
}

// Add adds what happened at a time.
func (l *Log) Add(at time.Time, e Event) {
	if l == nil {
		return
	}
	since := at.Sub(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = appendRecord(l.last, since, &e)
	if l.added++; l.added%chunkEvents == 0 {
		l.keepLocked()
	}
}

// keepLocked copies the last chunk, which is full, to the place of the oldest one. The oldest one's memory is used
// again, unless somebody reads, or texts are longer or much shorter now.
func (l *Log) keepLocked() {
	c, size := l.chunkOf(l.added-1), len(l.last)
	if l.looking > 0 || cap(*c) < size || cap(*c) > 2*size {
		*c = make(chunk, 0, size+size/16)
	}
	*c = append((*c)[:0], l.last...)
	if cap(l.last) > 4*size {
		l.last = nil
	}
	l.last = l.last[:0]
}

// chunkOf is the chunk of an event, if it is full.
func (l *Log) chunkOf(number uint64) *chunk { return &l.ring[number/chunkEvents%uint64(len(l.ring))] }

// Bytes is how much memory the Log has taken for events.
func (l *Log) Bytes() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := uint64(cap(l.last))
	for _, c := range l.ring {
		n += uint64(cap(c))
	}
	return n
}

// Past is an event that was added, valid until the function that got it returns. To decode it costs more than to find
// it.
type Past struct {
	Number uint64
	record record
}

// Event decodes the event.
func (p Past) Event() Event { return p.record.event(p.Number) }

// Of calls f with each event of a name, in the order in which they were added.
func (l *Log) Of(name string, f func(at time.Time, p Past)) {
	l.each(func(number uint64, r record) {
		if string(r.name()) == name {
			f(l.began.Add(r.duration(atTime)), Past{number, r})
		}
	})
}

// Use is what an event tells of how its name is used.
type Use struct {
	Name         []byte // valid until the function that got it returns
	What         What
	Waited, Held time.Duration
}

// Each calls f with each event of names that begin with prefix, in the order in which they were added.
func (l *Log) Each(prefix string, f func(at time.Time, u Use)) {
	l.each(func(_ uint64, r record) {
		if name := r.name(); len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
			f(l.began.Add(r.duration(atTime)), Use{name, r.what(), r.duration(atWaited), r.duration(atHeld)})
		}
	})
}

// each calls f with each event that there is now. Those who add do not wait for it.
func (l *Log) each(f func(number uint64, r record)) {
	if l == nil {
		return
	}
	chunks, first, oldest := l.look()
	defer l.looked()
	n := first
	for _, c := range chunks {
		for ; len(c) > 0; n++ {
			var r record
			if r, c = c.next(); n >= oldest {
				f(n, r)
			}
		}
	}
}

// look returns the chunks that there are now, the number of their first event, and that of the oldest event that
// counts. Call looked when the chunks are read.
func (l *Log) look() (chunks []chunk, first, oldest uint64) {
	chunks = make([]chunk, 0, len(l.ring)+1) // before the mutex is held, as there may be very many
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking++
	oldest = l.added - min(l.added, l.events)
	first = oldest - oldest%chunkEvents
	for n := first; n+chunkEvents <= l.added; n += chunkEvents {
		chunks = append(chunks, *l.chunkOf(n))
	}
	return append(chunks, slices.Clone(l.last)), first, oldest
}

func (l *Log) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking--
}

// Reaches is the time from which on no event is missing. The Log must not be nil.
func (l *Log) Reaches() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.added <= l.events {
		return l.began
	}
	oldest := l.added - l.events
	c := l.last
	if oldest/chunkEvents < l.added/chunkEvents {
		c = *l.chunkOf(oldest)
	}
	for range oldest % chunkEvents {
		_, c = c.next()
	}
	return l.began.Add(record(c).duration(atTime))
}
