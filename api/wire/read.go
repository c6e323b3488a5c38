package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// reader takes the fields of a message in the order of their numbers. Whatever is not as this package wants it makes
// the message odd, and package proto reads it instead.
type reader struct {
	b    []byte
	last protowire.Number
	odd  bool
}

// next is the number of the next field, 0 at the end.
func (r *reader) next() (protowire.Number, protowire.Type) {
	if len(r.b) == 0 || r.odd {
		return 0, 0
	}
	n, t, size := protowire.ConsumeTag(r.b)
	if size < 0 || n <= r.last {
		r.odd = true
		return 0, 0
	}
	r.b, r.last = r.b[size:], n
	return n, t
}

func (r *reader) number(t protowire.Type) uint64 {
	v, size := protowire.ConsumeVarint(r.b)
	if size < 0 || t != protowire.VarintType {
		r.odd = true
		return 0
	}
	r.b = r.b[size:]
	return v
}

func (r *reader) bytes(t protowire.Type) []byte {
	v, size := protowire.ConsumeBytes(r.b)
	if size < 0 || t != protowire.BytesType {
		r.odd = true
		return nil
	}
	r.b = r.b[size:]
	return v
}

func (r *reader) text(t protowire.Type) string {
	v := r.bytes(t)
	if !utf8.Valid(v) {
		r.odd = true
		return ""
	}
	return string(v)
}

func (r *reader) kind(t protowire.Type) lockdv1.LockKind {
	return lockdv1.LockKind(int32(r.number(t))) //nolint:gosec // as package proto does
}

func (r *reader) small(t protowire.Type) uint32 { return uint32(r.number(t)) } //nolint:gosec // as package proto does

func (r *reader) duration(t protowire.Type, d *durationpb.Duration) *durationpb.Duration {
	in := reader{b: r.bytes(t)}
	for n, t := in.next(); n != 0; n, t = in.next() {
		switch n {
		case 1:
			d.Seconds = int64(in.number(t)) //nolint:gosec // as package proto does
		case 2:
			d.Nanos = int32(in.number(t)) //nolint:gosec // as package proto does
		default:
			in.odd = true
		}
	}
	r.odd = r.odd || in.odd
	return d
}

// entries are the messages of a batch, which is a message with one field. They are appended to all.
func entries(b []byte, all [][]byte) ([][]byte, bool) {
	for len(b) > 0 {
		n, t, tag := protowire.ConsumeTag(b)
		if tag < 0 || n != 1 || t != protowire.BytesType {
			return all, false
		}
		entry, size := protowire.ConsumeBytes(b[tag:])
		if size < 0 {
			return all, false
		}
		all, b = append(all, entry), b[tag+size:]
	}
	return all, true
}

type (
	acquireSlot struct {
		arm         lockdv1.SessionRequest_Acquire
		acquire     lockdv1.Acquire
		wait, lease durationpb.Duration
	}
	releaseSlot struct {
		arm     lockdv1.SessionRequest_Release
		release lockdv1.Release
	}
	// requestRoom is where a request is read into, or a batch.
	requestRoom struct {
		acquires slab[acquireSlot]
		releases slab[releaseSlot]
		messages messages[lockdv1.SessionRequest, *lockdv1.SessionRequest]
		arm      lockdv1.SessionRequest_Batch
		batch    lockdv1.RequestBatch
	}
)

func (s *requestRoom) again() {
	s.acquires.again()
	s.releases.again()
	s.messages.again()
	s.arm.Batch, s.batch.Requests = nil, nil
}

// read reads a request, or a batch.
func (s *requestRoom) read(b []byte, m *lockdv1.SessionRequest) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			m.RequestId = r.number(t)
		case 11:
			var ok bool
			s.batch.Requests, ok = s.messages.read(r.bytes(t), s.readOne)
			s.arm.Batch, m.Message = &s.batch, &s.arm
			r.odd = !ok || r.odd
		default:
			s.readArm(&r, m, n, t, 1)
		}
	}
	return !r.odd
}

// readOne reads a request that is no batch.
func (s *requestRoom) readOne(b []byte, m *lockdv1.SessionRequest, left int) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		if n == 1 {
			m.RequestId = r.number(t)
			continue
		}
		s.readArm(&r, m, n, t, left)
	}
	return !r.odd
}

// readArm reads what is asked.
func (s *requestRoom) readArm(r *reader, m *lockdv1.SessionRequest, n protowire.Number, t protowire.Type, left int) {
	switch n {
	case 4:
		slot := s.acquires.next(left)
		slot.arm.Acquire, m.Message = &slot.acquire, &slot.arm
		r.odd = !slot.read(r.bytes(t)) || r.odd
	case 6:
		slot := s.releases.next(left)
		slot.arm.Release, m.Message = &slot.release, &slot.arm
		r.odd = !readRelease(r.bytes(t), &slot.release) || r.odd
	default:
		r.odd = true
	}
}

func (s *acquireSlot) read(b []byte) bool {
	r, a := reader{b: b}, &s.acquire
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			a.Name = r.text(t)
		case 3:
			a.Kind = r.kind(t)
		case 4:
			a.Holder = r.text(t)
		case 5:
			a.Permits = r.small(t)
		case 6:
			a.Wait = r.duration(t, &s.wait)
		case 7:
			a.Lease = r.duration(t, &s.lease)
		case 8:
			a.Annotation = r.text(t)
		case 9:
			a.Limit = r.small(t)
		case 11:
			a.InsteadOf = append(a.InsteadOf, r.number(t))
			r.last-- // there may be more of them
		case 12:
			a.Actor = r.text(t)
		case 13:
			a.Traceparent = r.text(t)
		default: // several names, or what few requests have
			r.odd = true
		}
	}
	return !r.odd
}

func readRelease(b []byte, m *lockdv1.Release) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			m.Name = r.text(t)
		case 2:
			m.Kind = r.kind(t)
		case 3:
			m.Holder = r.text(t)
		case 4:
			m.Fence = r.number(t)
		case 5:
			m.Keep = r.small(t)
		default:
			r.odd = true
		}
	}
	return !r.odd
}
