package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Answers makes the messages of a batch of answers with few allocations. Its zero value is ready for use.
type Answers struct {
	granted  slab[grantedSlot]
	released slab[releasedSlot]
}

// Again takes all messages back, to make others of them.
func (a *Answers) Again() {
	a.granted.again()
	a.released.again()
}

type (
	// validitySlot is a Validity with what belongs to it.
	validitySlot struct {
		validity       lockdv1.Validity
		remaining, age durationpb.Duration
	}
	grantedSlot struct {
		arm     lockdv1.SessionResponse_Granted
		granted lockdv1.Granted
		hold    lockdv1.Hold
		holds   [1]*lockdv1.Hold
		validitySlot
	}
	releasedSlot struct {
		arm      lockdv1.SessionResponse_Released
		released lockdv1.Released
	}
)

// Granted makes m a Granted with one Hold and a Validity, all of them empty. Of this and similar messages no more than
// so many are left to make.
func (a *Answers) Granted(m *lockdv1.SessionResponse, left int) *lockdv1.Granted {
	s := a.granted.next(left)
	s.granted.Validity, s.validity.Remaining, s.validity.AnchorAge = &s.validity, &s.remaining, &s.age
	s.grant(m)
	return &s.granted
}

func (s *grantedSlot) grant(m *lockdv1.SessionResponse) {
	s.holds[0] = &s.hold
	s.granted.Holds = s.holds[:]
	s.arm.Granted, m.Message = &s.granted, &s.arm
}

// Released makes m an empty Released.
func (a *Answers) Released(m *lockdv1.SessionResponse, left int) *lockdv1.Released {
	s := a.released.next(left)
	s.arm.Released, m.Message = &s.released, &s.arm
	return &s.released
}

// responseRoom is where an answer is read into, or a batch.
type responseRoom struct {
	Answers
	messages messages[lockdv1.SessionResponse, *lockdv1.SessionResponse]
	arm      lockdv1.SessionResponse_Batch
	batch    lockdv1.ResponseBatch
}

func (s *responseRoom) again() {
	s.Again()
	s.messages.again()
	s.arm.Batch, s.batch.Responses = nil, nil
}

// read reads an answer, or a batch.
func (s *responseRoom) read(b []byte, m *lockdv1.SessionResponse) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			m.RequestId = r.number(t)
		case 22:
			var ok bool
			s.batch.Responses, ok = s.messages.read(r.bytes(t), s.readOne)
			s.arm.Batch, m.Message = &s.batch, &s.arm
			r.odd = !ok || r.odd
		default:
			s.readArm(&r, m, n, t, 1)
		}
	}
	return !r.odd
}

// readOne reads an answer that is no batch.
func (a *Answers) readOne(b []byte, m *lockdv1.SessionResponse, left int) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		if n == 1 {
			m.RequestId = r.number(t)
			continue
		}
		a.readArm(&r, m, n, t, left)
	}
	return !r.odd
}

// readArm reads what is told.
func (a *Answers) readArm(r *reader, m *lockdv1.SessionResponse, n protowire.Number, t protowire.Type, left int) {
	switch n {
	case 4:
		r.odd = !readGranted(r.bytes(t), a.granted.next(left), m) || r.odd
	case 7:
		r.odd = !readReleased(r.bytes(t), a.Released(m, left)) || r.odd
	default:
		r.odd = true
	}
}

func readGranted(b []byte, s *grantedSlot, m *lockdv1.SessionResponse) bool {
	s.arm.Granted, m.Message = &s.granted, &s.arm
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1: // a second one is odd
			s.grant(m)
			r.odd = !readHold(r.bytes(t), &s.hold) || r.odd
		case 2:
			s.granted.Validity = &s.validity
			r.odd = !s.readValidity(r.bytes(t)) || r.odd
		case 3:
			s.granted.HoldCount = r.small(t)
		case 4:
			s.granted.Auto = r.number(t) != 0
		default:
			r.odd = true
		}
	}
	return !r.odd
}

func readHold(b []byte, h *lockdv1.Hold) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			h.Name = r.text(t)
		case 2:
			h.Kind = r.kind(t)
		case 3:
			h.Holder = r.text(t)
		case 4:
			h.Fence = r.number(t)
		case 5:
			h.AcquiredBy = r.number(t)
		default:
			r.odd = true
		}
	}
	return !r.odd
}

func (s *validitySlot) readValidity(b []byte) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		switch n {
		case 1:
			s.validity.Remaining = r.duration(t, &s.remaining)
		case 2:
			s.validity.Anchor = r.number(t)
		case 3:
			s.validity.AnchorAge = r.duration(t, &s.age)
		default:
			r.odd = true
		}
	}
	return !r.odd
}

// readReleased reads a last release: one of several holds has a Validity.
func readReleased(b []byte, m *lockdv1.Released) bool {
	r := reader{b: b}
	for n, t := r.next(); n != 0; n, t = r.next() {
		if n != 1 {
			return false
		}
		m.Remaining = r.small(t)
	}
	return !r.odd
}
