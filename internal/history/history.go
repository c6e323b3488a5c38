// Package history remembers what happened to names lately.
//
// # What it promises
//
// A Log has the last events, so many and no more, whatever they are about and however long their texts are. They are
// written one behind the other into chunks of bytes, in which the collector finds nothing to follow. To add one takes no
// memory, once the Log is full, and a mutex that is held while some hundred bytes are written, so it can be done with
// any mutex held. It costs about as much as two reads of a clock. A long annotation is cut.
//
// # What it does not promise
//
// Nothing is stored: a replica that ends takes its events along. Nothing depends on them but what people look at.
package history

import (
	"iter"
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

const (
	// annotationBytes is how much is remembered of an annotation.
	annotationBytes = 256
	// chunkBytes has room for some 600 events of short texts, and recordBytes is the room for one that a chunk must have.
	chunkBytes  = 64 << 10
	recordBytes = 3 << 10
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

// Log has the last events. A nil Log has none.
type Log struct {
	began  time.Time
	events uint64

	mu      sync.Mutex // guards the fields below, and the last chunk behind its bytes
	added   uint64
	chunks  []chunk // the oldest first
	looking int     // how many read chunks
}

// chunk has events one behind the other, each as a record.
type chunk struct {
	first uint64        // the number of its first event
	at    time.Duration // when it began, since the Log did
	bytes []byte
}

// New is a Log of so many events; nil if there are to be none.
func New(events int) *Log {
	if events == 0 {
		return nil
	}
	return &Log{began: time.Now(), events: uint64(events)}
}

// Add adds what happened at a time.
func (l *Log) Add(at time.Time, e Event) {
	if l == nil {
		return
	}
	if n := annotationBytes; len(e.Annotation) > n {
		for n > 0 && !utf8.RuneStart(e.Annotation[n]) {
			n--
		}
		e.Annotation = e.Annotation[:n]
	}
	since := at.Sub(l.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.roomLocked(since)
	c.bytes = appendRecord(c.bytes, since-c.at, &e)
	l.added++
}

// roomLocked is the chunk for the next event. A new one takes the memory of the oldest one, if nothing in that counts any
// more and nobody reads.
func (l *Log) roomLocked(at time.Duration) *chunk {
	last, over := len(l.chunks)-1, 0
	if last >= 0 && cap(l.chunks[last].bytes)-len(l.chunks[last].bytes) >= recordBytes {
		return &l.chunks[last]
	}
	for over < last && l.chunks[over+1].first-1+l.events <= l.added {
		over++
	}
	var bytes []byte
	if over > 0 && l.looking == 0 {
		bytes = l.chunks[0].bytes[:0]
	} else {
		bytes = make([]byte, 0, chunkBytes)
	}
	l.chunks = append(slices.Delete(l.chunks, 0, over), chunk{l.added + 1, at, bytes})
	return &l.chunks[len(l.chunks)-1]
}

// All are the events of names that begin with prefix, in the order in which they were added, without those that are
// added meanwhile. Nobody who adds waits until it has ended.
func (l *Log) All(prefix string) iter.Seq2[time.Time, Event] {
	return func(yield func(time.Time, Event) bool) {
		if l == nil {
			return
		}
		l.mu.Lock()
		added, chunks := l.added, slices.Clone(l.chunks)
		l.looking++
		l.mu.Unlock()
		defer l.looked()
		for _, c := range chunks {
			for number, rest := c.first, c.bytes; len(rest) > 0; number++ {
				var r record
				r, rest = cutRecord(rest)
				if number+l.events > added && r.isOf(prefix) && !yield(l.began.Add(c.at+r.at()), r.event(number)) {
					return
				}
			}
		}
	}
}

func (l *Log) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking--
}

// Reaches is from when on all events are there.
func (l *Log) Reaches() time.Time {
	l.mu.Lock()
	full := l.added > l.events
	l.mu.Unlock()
	if full {
		for oldest := range l.All("") {
			return oldest
		}
	}
	return l.began
}
