package wire

import lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"

// Answers makes the messages of a batch of answers in the same memory again and again. Its zero value is ready for use.
type Answers struct {
	granted  slab[grantedSlot]
	released slab[releasedSlot]
	messages messages[lockdv1.SessionResponse, *lockdv1.SessionResponse]
	arm      lockdv1.SessionResponse_Batch
	batch    lockdv1.ResponseBatch
	envelope lockdv1.SessionResponse
}

// Again takes all messages back, to make others of them.
func (a *Answers) Again() {
	a.granted.again()
	a.released.again()
	a.messages.again()
	a.arm.Batch, a.batch.Responses = nil, nil
}

// Empty has so many messages, that are empty.
func (a *Answers) Empty(n int) []*lockdv1.SessionResponse { return a.messages.empty(n) }

// Batch is a message with all of these.
func (a *Answers) Batch(all []*lockdv1.SessionResponse) *lockdv1.SessionResponse {
	a.setBatch(&a.envelope, all)
	return &a.envelope
}

func (a *Answers) setBatch(m *lockdv1.SessionResponse, all []*lockdv1.SessionResponse) {
	a.batch.Responses, a.arm.Batch, m.Message = all, &a.batch, &a.arm
}

type (
	grantedSlot struct {
		arm       lockdv1.SessionResponse_Granted
		granted   lockdv1.Granted
		hold      lockdv1.Hold
		holds     [1]*lockdv1.Hold
		validity  lockdv1.Validity
		durations durations
	}
	releasedSlot struct {
		arm      lockdv1.SessionResponse_Released
		released lockdv1.Released
	}
)

// Granted makes m a Granted with one Hold and a Validity, all of them empty.
func (a *Answers) Granted(m *lockdv1.SessionResponse) *lockdv1.Granted {
	s := a.grant(m)
	s.granted.Validity, s.validity.Remaining, s.validity.AnchorAge = &s.validity, &s.durations[0], &s.durations[1]
	return &s.granted
}

func (a *Answers) grant(m *lockdv1.SessionResponse) *grantedSlot {
	s := a.granted.next()
	s.holds[0] = &s.hold
	s.granted.Holds = s.holds[:]
	s.arm.Granted, m.Message = &s.granted, &s.arm
	return s
}

// Released makes m an empty Released.
func (a *Answers) Released(m *lockdv1.SessionResponse) *lockdv1.Released {
	s := a.released.next()
	s.arm.Released, m.Message = &s.released, &s.arm
	return &s.released
}

// responseRoom is where an answer is read into, or a batch.
type responseRoom struct {
	Answers
	fields fields
}

// read reads an answer, or a batch.
func (r *responseRoom) read(b []byte, m *lockdv1.SessionResponse) bool {
	f := &r.fields
	f.read(b)
	f.uint64(1, &m.RequestId)
	if f.number != 22 {
		r.readOne(f, m)
		return f.over()
	}
	batch, _ := f.enter(22, true)
	r.setBatch(m, r.messages.read(f, r.readOne))
	f.leave(batch)
	return f.over()
}

// readOne reads an answer that is no batch, of which the id may have been read.
func (r *responseRoom) readOne(f *fields, m *lockdv1.SessionResponse) {
	f.uint64(1, &m.RequestId)
	switch f.number {
	case 4:
		slot := r.grant(m)
		f.granted(&slot.granted, slot)
	case 7:
		f.released(r.Released(m))
	default: // of another kind: there are fields left
	}
}

// writeResponse writes an answer, or a batch.
func writeResponse(f *fields, m *lockdv1.SessionResponse) {
	if batch, ok := m.GetMessage().(*lockdv1.SessionResponse_Batch); ok {
		f.value(1, m.GetRequestId())
		writeBatch(f, 22, batch.Batch.GetResponses(), writeOneResponse)
		return
	}
	writeOneResponse(f, m)
}

func writeOneResponse(f *fields, m *lockdv1.SessionResponse) {
	f.value(1, m.GetRequestId())
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		f.granted(r.Granted, nil)
	case *lockdv1.SessionResponse_Released:
		f.released(r.Released)
	default:
		f.odd = true
	}
}

// granted is with one hold. A grant without one is left to package proto when it is read, too.
func (f *fields) granted(m *lockdv1.Granted, room *grantedSlot) {
	if len(m.GetHolds()) != 1 || m.GetHolds()[0] == nil {
		f.odd = true
		return
	}
	out, _ := f.enter(4, true)
	hold, there := f.enter(1, true)
	if !there {
		f.odd = true
		return
	}
	h := m.GetHolds()[0]
	f.text(1, &h.Name)
	f.lockKind(2, &h.Kind)
	f.text(3, &h.Holder)
	f.uint64(4, &h.Fence)
	f.uint64(5, &h.AcquiredBy)
	f.leave(hold)
	if validity, there := f.enter(2, m.GetValidity() != nil); there {
		var times *durations
		if !f.writing {
			m.Validity, times = &room.validity, &room.durations
		}
		v := m.GetValidity()
		f.duration(1, &v.Remaining, times, 0)
		f.uint64(2, &v.Anchor)
		f.duration(3, &v.AnchorAge, times, 1)
		f.leave(validity)
	}
	f.uint32(3, &m.HoldCount)
	f.bool(4, &m.Auto)
	f.leave(out)
}

// released is a last release: one of several holds has a Validity.
func (f *fields) released(r *lockdv1.Released) {
	if r == nil || r.GetValidity() != nil {
		f.odd = true
		return
	}
	out, _ := f.enter(7, true)
	f.uint32(1, &r.Remaining)
	f.leave(out)
}
