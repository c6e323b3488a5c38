package history

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"

	"github.com/lockd-io/lockd/internal/lock"
)

// A record is an event as bytes: figures of fixed lengths, its name, and its other texts, each behind its length.

// Where the figures are in a record.
const (
	atSize    = 0 // how many bytes it has
	atWhat    = atSize + 4
	atKind    = atWhat + 1
	atNamed   = atKind + 1 // how many bytes its name has
	atTime    = atNamed + 2
	atWaited  = atTime + 8
	atHeld    = atWaited + 8
	atLease   = atHeld + 8
	atFence   = atLease + 8
	atPermits = atFence + 8
	atName    = atPermits + 4
)

const (
	// annotationBytes is how much is remembered of an annotation.
	annotationBytes = 256
	// textBytes is how much is remembered of any other text.
	textBytes = math.MaxUint16
)

var order = binary.LittleEndian

// record is the bytes of an event.
type record []byte

// appendRecord appends the record of an event. at is how long after the Log's beginning it happened.
func appendRecord(b []byte, at time.Duration, e *Event) []byte {
	var figures [atName]byte
	name := cut(e.Name, textBytes)
	figures[atWhat], figures[atKind] = byte(e.What), byte(e.Kind)
	order.PutUint16(figures[atNamed:], uint16(len(name)))
	order.PutUint64(figures[atTime:], uint64(at))
	order.PutUint64(figures[atWaited:], uint64(e.Waited))
	order.PutUint64(figures[atHeld:], uint64(e.Held))
	order.PutUint64(figures[atLease:], uint64(e.Lease))
	order.PutUint64(figures[atFence:], uint64(e.Fence))
	order.PutUint32(figures[atPermits:], e.Permits)
	start := len(b)
	b = append(append(b, figures[:]...), name...)
	b = appendText(b, string(e.Owner), textBytes)
	b = appendText(b, e.Annotation, annotationBytes)
	if c := e.Client; c == nil {
		b = append(b, 0, 0, 0)
	} else {
		b = appendText(appendText(appendText(b, c.Name, textBytes), c.Peer, textBytes), c.Identity, textBytes)
	}
	if w := e.Why; w == nil {
		b = append(b, 0, 0, 0)
	} else {
		b = appendText(appendText(appendText(b, w.Cause, textBytes), w.By, textBytes), w.Text, textBytes)
	}
	order.PutUint32(b[start+atSize:], uint32(len(b)-start))
	return b
}

func appendText(b []byte, text string, most int) []byte {
	text = cut(text, most)
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cut is the beginning of a text, with at most so many bytes and no half character.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// next is the first record of a chunk, and what is behind it.
func (c chunk) next() (r record, rest chunk) {
	size := order.Uint32(c[atSize:])
	return record(c[:size]), c[size:]
}

func (r record) what() What                       { return What(r[atWhat]) }
func (r record) duration(where int) time.Duration { return time.Duration(order.Uint64(r[where:])) }
func (r record) name() []byte                     { return r[atName:][:order.Uint16(r[atNamed:])] }

// event is the event of a record.
func (r record) event(number uint64) Event {
	name := r.name()
	rest := r[atName+len(name):]
	next := func() string {
		size, n := binary.Uvarint(rest)
		text := rest[n:][:size]
		rest = rest[n+len(text):]
		return string(text)
	}
	e := Event{
		Name: string(name), Owner: lock.Owner(next()), Annotation: next(), Fence: lock.Fence(order.Uint64(r[atFence:])),
		Waited: r.duration(atWaited), Held: r.duration(atHeld), Lease: r.duration(atLease),
		Permits: order.Uint32(r[atPermits:]), Kind: lock.Kind(r[atKind]), What: r.what(), Number: number,
	}
	if who := (Client{next(), next(), next()}); who != (Client{}) {
		e.Client = &who
	}
	if why := (Why{next(), next(), next()}); why != (Why{}) {
		e.Why = &why
	}
	return e
}
