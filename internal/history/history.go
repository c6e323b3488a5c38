// Package history remembers what happened to names lately.
//
// # What it promises
//
// A Log has the last events, so many and no more, whatever they are about. To add one takes no memory and no other
// mutex than that of its own place, so it can be done with any mutex held. It costs about as much as two reads of a
// clock. Texts are those that others have anyway; a long annotation is cut.
//
// # What it does not promise
//
// Nothing is stored: a replica that ends takes its events along. Nothing depends on them but what people look at.
package history

import (
	"strings"
	"sync"
	"sync/atomic"
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

	at     time.Duration // since the Log began
	number uint64
}

// Client is who holds a name or asks for it. It is shared by all of its events.
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

// Number is greater than those of events that were added before.
func (e *Event) Number() uint64 { return e.number }

// Log is a ring of events. A nil Log has none.
type Log struct {
	began time.Time
	added atomic.Uint64
	ring  []place
}

type place struct {
	mu    sync.Mutex // guards the field below
	event Event
}

// New is a Log of so many events; nil if there are to be none.
func New(events int) *Log {
	if events == 0 {
		return nil
	}
	return &Log{began: time.Now(), ring: make([]place, events)}
}

// Add adds what happened at a time.
func (l *Log) Add(at time.Time, e Event) {
	if l == nil {
		return
	}
	if len(e.Annotation) > annotationBytes {
		e.Annotation = strings.Clone(strings.ToValidUTF8(e.Annotation[:annotationBytes], "")) // not half a character
	}
	e.at, e.number = at.Sub(l.began), l.added.Add(1)
	p := &l.ring[e.number%uint64(len(l.ring))]
	p.mu.Lock()
	p.event = e
	p.mu.Unlock()
}

// Each calls f with each event, in no order. f must be quick, and not keep it.
func (l *Log) Each(f func(at time.Time, e *Event)) {
	if l == nil {
		return
	}
	for i := range l.ring {
		p := &l.ring[i]
		p.mu.Lock()
		if p.event.What != 0 {
			f(l.began.Add(p.event.at), &p.event)
		}
		p.mu.Unlock()
	}
}

// Reaches is from when on all events are there.
func (l *Log) Reaches() time.Time {
	added := l.added.Load()
	if added <= uint64(len(l.ring)) {
		return l.began
	}
	oldest := &l.ring[(added+1)%uint64(len(l.ring))]
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	return l.began.Add(oldest.event.at)
}
