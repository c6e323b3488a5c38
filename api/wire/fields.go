package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// fields goes over the fields of a message in the order of their numbers, and reads or writes each of them. So a
// message is described once for both. Whatever is not as this package wants it makes the message odd. Package proto
// reads or writes what is odd.
type fields struct {
	b       []byte // what is left to read, or what was written
	writing bool
	odd     bool

	// Of the field that is to be read.
	number protowire.Number // 0 at the end
	kind   protowire.Type
}

// read begins to read a message.
func (f *fields) read(b []byte) {
	f.b, f.odd, f.number = b, false, 0
	f.next()
}

// next goes on to the next field that is to be read.
func (f *fields) next() {
	last := f.number
	f.number = 0
	if len(f.b) == 0 || f.odd {
		return
	}
	n, t, size := protowire.ConsumeTag(f.b)
	if size < 0 || n <= last {
		f.odd = true
		return
	}
	f.b, f.number, f.kind = f.b[size:], n, t
}

// over says whether all was read and nothing was odd.
func (f *fields) over() bool { return !f.odd && f.number == 0 }

// varint reads a number.
func (f *fields) varint() uint64 {
	v, size := protowire.ConsumeVarint(f.b)
	if size < 0 || f.kind != protowire.VarintType {
		f.odd = true
		return 0
	}
	f.b = f.b[size:]
	return v
}

// bytes reads what has a length.
func (f *fields) bytes() []byte {
	v, size := protowire.ConsumeBytes(f.b)
	if size < 0 || f.kind != protowire.BytesType {
		f.odd = true
		return nil
	}
	f.b = f.b[size:]
	return v
}

// value returns a number, which is given if it is to be written.
func (f *fields) value(n protowire.Number, v uint64) uint64 {
	switch {
	case f.writing && v != 0:
		f.b = protowire.AppendVarint(protowire.AppendTag(f.b, n, protowire.VarintType), v)
	case !f.writing && f.number == n:
		v = f.varint()
		f.next()
	}
	return v
}

// set stores what was read. A message that is written is not touched: others may read it meanwhile.
func set[T any](f *fields, at *T, v T) {
	if !f.writing {
		*at = v
	}
}

func (f *fields) uint64(n protowire.Number, v *uint64) { set(f, v, f.value(n, *v)) }

func (f *fields) uint32(n protowire.Number, v *uint32) {
	set(f, v, uint32(f.value(n, uint64(*v)))) //nolint:gosec // as package proto does
}

func (f *fields) lockKind(n protowire.Number, v *lockdv1.LockKind) {
	set(f, v, lockdv1.LockKind(int32(f.value(n, uint64(int64(*v)))))) //nolint:gosec // as package proto does
}

func (f *fields) bool(n protowire.Number, v *bool) {
	set(f, v, f.value(n, protowire.EncodeBool(*v)) != 0)
}

func (f *fields) text(n protowire.Number, v *string) {
	switch {
	case f.writing && *v != "":
		f.odd = f.odd || !utf8.ValidString(*v)
		f.b = protowire.AppendString(protowire.AppendTag(f.b, n, protowire.BytesType), *v)
	case !f.writing && f.number == n:
		b := f.bytes()
		f.odd = f.odd || !utf8.Valid(b)
		*v = string(b)
		f.next()
	}
}

// numbers are a list.
func (f *fields) numbers(n protowire.Number, all *[]uint64) {
	if f.writing {
		for _, v := range *all {
			f.b = protowire.AppendVarint(protowire.AppendTag(f.b, n, protowire.VarintType), v)
		}
		return
	}
	for f.number == n {
		*all = append(*all, f.varint())
		f.number-- // there may be more of them
		f.next()
	}
}

// durations have room for what a message tells of time.
type durations [2]durationpb.Duration

// duration is read into a part of the room, which is nil while fields are written.
func (f *fields) duration(n protowire.Number, d **durationpb.Duration, room *durations, part int) {
	out, ok := f.enter(n, *d != nil)
	if !ok {
		return
	}
	if !f.writing {
		*d = &room[part]
	}
	v := *d
	set(f, &v.Seconds, int64(f.value(1, uint64(v.GetSeconds()))))    //nolint:gosec // as package proto does
	set(f, &v.Nanos, int32(f.value(2, uint64(int64(v.GetNanos()))))) //nolint:gosec // as package proto does
	f.leave(out)
}

// outer is the message around the one at hand.
type outer struct {
	number protowire.Number
	rest   []byte // what is to be read after the one at hand
	start  int    // where the one at hand is written
}

// enter begins with a message inside of the one at hand, if it is there. A message that is written has its length in
// front: enter leaves a byte for that, and leave makes room if it needs more.
func (f *fields) enter(n protowire.Number, there bool) (out outer, ok bool) {
	switch {
	case f.writing && there:
		f.b = append(protowire.AppendTag(f.b, n, protowire.BytesType), 0)
		return outer{start: len(f.b)}, true
	case f.writing || f.number != n:
		return out, false
	}
	inner := f.bytes()
	out = outer{number: n, rest: f.b}
	f.b, f.number = inner, 0
	f.next()
	return out, true
}

// leave goes back to the message around.
func (f *fields) leave(out outer) {
	if !f.writing {
		f.odd = !f.over()
		f.b, f.number = out.rest, out.number
		f.next()
		return
	}
	size := uint64(len(f.b) - out.start)
	if more := protowire.SizeVarint(size) - 1; more > 0 {
		f.b = append(f.b, make([]byte, more)...)
		copy(f.b[out.start+more:], f.b[out.start:])
	}
	protowire.AppendVarint(f.b[:out.start-1], size)
}

// writeBatch writes the messages of a batch, with a function for one of them.
func writeBatch[P proto.Message](f *fields, n protowire.Number, all []P, one func(f *fields, m P)) {
	batch, _ := f.enter(n, true)
	for _, m := range all {
		inside, _ := f.enter(1, true)
		start := len(f.b)
		if one(f, m); f.odd {
			var err error
			if f.b, err = (proto.MarshalOptions{}).MarshalAppend(f.b[:start], m); err != nil {
				return
			}
			f.odd = false
		}
		f.leave(inside)
	}
	f.leave(batch)
}
