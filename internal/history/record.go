package history

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A record is an event in bytes: its figures and the lengths of its texts as varints, and then its texts.
const (
	figures = 8
	texts   = 9
)

// appendRecord appends the record of an event that happened so long after the beginning of the chunk, which is
// negative if others were faster.
func appendRecord(b []byte, at time.Duration, e *Event) []byte {
	who, why := cmp.Or(e.Client, &Client{}), cmp.Or(e.Why, &Why{})
	for _, n := range [figures]uint64{
		uint64(at), uint64(e.What), uint64(e.Kind), uint64(e.Fence), uint64(e.Waited), uint64(e.Held), uint64(e.Lease),
		uint64(e.Permits),
	} {
		b = binary.AppendUvarint(b, n)
	}
	all := [texts]string{
		e.Name, string(e.Owner), e.Annotation, who.Name, who.Peer, who.Identity, why.Cause, why.By, why.Text,
	}
	for _, t := range all {
		b = binary.AppendUvarint(b, uint64(len(t)))
	}
	for _, t := range all {
		b = append(b, t...)
	}
	return b
}

// record is one that is read.
type record struct {
	figures [figures]uint64
	lengths [texts]int
	texts   []byte // all of them
}

// cutRecord is the first record of some, and the others.
func cutRecord(b []byte) (r record, rest []byte) {
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	for i := range r.figures {
		r.figures[i] = next()
	}
	end := 0
	for i := range r.lengths {
		r.lengths[i] = int(next())
		end += r.lengths[i]
	}
	r.texts = b[:end]
	return r, b[end:]
}

// at is how long after the beginning of its chunk it happened.
func (r *record) at() time.Duration { return time.Duration(r.figures[0]) }

// isOf says whether it is of a name that begins with prefix.
func (r *record) isOf(prefix string) bool {
	return r.lengths[0] >= len(prefix) && string(r.texts[:len(prefix)]) == prefix
}

// event is what the record is of. Its texts share some memory that is its own.
func (r *record) event(number uint64) Event {
	rest := string(r.texts)
	var all [texts]string
	for i, n := range r.lengths {
		all[i], rest = rest[:n], rest[n:]
	}
	f := r.figures
	e := Event{
		Number: number, What: What(f[1]), Kind: lock.Kind(f[2]), Fence: lock.Fence(f[3]), Waited: time.Duration(f[4]),
		Held: time.Duration(f[5]), Lease: time.Duration(f[6]), Permits: uint32(f[7]),
		Name: all[0], Owner: lock.Owner(all[1]), Annotation: all[2],
	}
	if who := (Client{all[3], all[4], all[5]}); who != (Client{}) {
		e.Client = &who
	}
	if why := (Why{all[6], all[7], all[8]}); why != (Why{}) {
		e.Why = &why
	}
	return e
}
