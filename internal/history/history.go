// Package history remembers what happened to names lately.
//
// # What it promises
//
// A Log has the last events, so many and no more, whatever they are about and however long their texts are. They are
// copied into memory in which the collector has nothing to follow. It is used again: to add an event to a full Log
// takes no memory, unless somebody reads or texts get longer. The mutex that this needs is held while some hundred
// bytes are copied, so it can be done with any mutex held. It costs about as much as two reads of a clock. A long
// annotation is cut.
//
// # What it does not promise
//
// Nothing is stored: a replica that ends takes its events along. Nothing depends on them but what people look at.
package history

import (
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

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
	Resumed           // and has come from another one
)

// annotationBytes is how much is remembered of an annotation.
const annotationBytes = 256

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

// Log is a ring of chunks of events. A nil Log has none.
type Log struct {
	began  time.Time
	events uint64

	mu      sync.Mutex // guards the fields below, and what is behind the records and texts of chunks
	added   uint64
	ring    []chunk
	looking int // how many read: what they see is not written to again
}

// chunkEvents is how many events a chunk has.
const chunkEvents = 256

// chunk has events, one behind the other.
type chunk struct {
	records []record
	texts   []byte // all of theirs
}

// record is an event without pointers.
type record struct {
	at, waited, held, lease time.Duration // at is since the Log began
	fence                   lock.Fence
	permits                 uint32
	kind                    lock.Kind
	what                    What
	lengths                 [9]uint16 // of its texts
}

// New is a Log of so many events; nil if there are to be none.
func New(events int) *Log {
	if events == 0 {
		return nil
	}
	return &Log{began: time.Now(), events: uint64(events), ring: make([]chunk, events/chunkEvents+2)}
}

// Add adds what happened at a time.
func (l *Log) Add(at time.Time, e Event) {
	if l == nil {
		return
	}
	var who Client
	if e.Client != nil {
		who = *e.Client
	}
	var why Why
	if e.Why != nil {
		why = *e.Why
	}
	texts := [...]string{
		e.Name, string(e.Owner), cut(e.Annotation, annotationBytes), who.Name, who.Peer, who.Identity,
		why.Cause, why.By, why.Text,
	}
	r := record{
		at: at.Sub(l.began), waited: e.Waited, held: e.Held, lease: e.Lease, fence: e.Fence, permits: e.Permits,
		kind: e.Kind, what: e.What,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.chunkLocked()
	all := c.texts
	for i, t := range texts {
		if t == "" {
			continue
		}
		if len(t) > math.MaxUint16 {
			t = cut(t, math.MaxUint16)
		}
		r.lengths[i] = uint16(len(t))
		all = append(all, t...)
	}
	c.records, c.texts = append(c.records, r), all
	l.added++
}

// cut is as much of a text as has so many bytes.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// chunkOf is the chunk of an event.
func chunkOf(ring []chunk, number uint64) *chunk { return &ring[number/chunkEvents%uint64(len(ring))] }

// chunkLocked is the chunk for the next event. The oldest one is used again, unless somebody reads, or it has room for
// much longer texts than there are now.
func (l *Log) chunkLocked() *chunk {
	c := chunkOf(l.ring, l.added)
	if l.added%chunkEvents > 0 {
		return c
	}
	usual := chunkEvents
	if l.added > 0 {
		usual = len(chunkOf(l.ring, l.added-1).texts)
	}
	if c.records == nil || l.looking > 0 || cap(c.texts) > 2*usual {
		*c = chunk{make([]record, 0, chunkEvents), make([]byte, 0, usual+usual/8)}
	}
	c.records, c.texts = c.records[:0], c.texts[:0]
	return c
}

// Of calls f with each event of a name, in the order in which they were added.
func (l *Log) Of(name string, f func(at time.Time, e Event)) {
	l.each(func(number uint64, r *record, texts []byte) {
		if string(texts[:r.lengths[0]]) == name {
			f(l.began.Add(r.at), r.event(number, string(texts)))
		}
	})
}

// Each calls f with each event of names that begin with prefix, in the order in which they were added: with its figures
// and its name alone.
func (l *Log) Each(prefix string, f func(at time.Time, e Event)) {
	l.each(func(_ uint64, r *record, texts []byte) {
		name := texts[:r.lengths[0]]
		if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
			f(l.began.Add(r.at), Event{Name: string(name), What: r.what, Waited: r.waited, Held: r.held})
		}
	})
}

// each calls f with each event that there is now, and its texts. Those who add do not wait for it.
func (l *Log) each(f func(number uint64, r *record, texts []byte)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	ring, added := slices.Clone(l.ring), l.added
	l.looking++
	l.mu.Unlock()
	defer l.looked()
	first := added - min(added, l.events)
	for n := first - first%chunkEvents; n < added; {
		c := chunkOf(ring, n)
		texts := c.texts
		for i := range c.records {
			r := &c.records[i]
			own := texts[:r.size()]
			texts = texts[len(own):]
			if n >= first {
				f(n, r, own)
			}
			n++
		}
	}
}

func (l *Log) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking--
}

// size is how many bytes its texts have.
func (r *record) size() (n int) {
	for _, l := range r.lengths {
		n += int(l)
	}
	return n
}

// event is the event of a record.
func (r *record) event(number uint64, texts string) Event {
	var all [len(r.lengths)]string
	for i, n := range r.lengths {
		all[i], texts = texts[:n], texts[n:]
	}
	e := Event{
		Name: all[0], Owner: lock.Owner(all[1]), Annotation: all[2], Fence: r.fence, Waited: r.waited, Held: r.held,
		Lease: r.lease, Permits: r.permits, Kind: r.kind, What: r.what, Number: number,
	}
	if who := (Client{all[3], all[4], all[5]}); who != (Client{}) {
		e.Client = &who
	}
	if why := (Why{all[6], all[7], all[8]}); why != (Why{}) {
		e.Why = &why
	}
	return e
}

// Reaches is from when on all events are there.
func (l *Log) Reaches() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.added <= l.events {
		return l.began
	}
	oldest := l.added - l.events
	return l.began.Add(chunkOf(l.ring, oldest).records[oldest%chunkEvents].at)
}
