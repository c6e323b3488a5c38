package wire

import lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"

type (
	acquireSlot struct {
		arm       lockdv1.SessionRequest_Acquire
		acquire   lockdv1.Acquire
		durations durations
	}
	releaseSlot struct {
		arm     lockdv1.SessionRequest_Release
		release lockdv1.Release
	}
	// requestRoom is where a request is read into, or a batch.
	requestRoom struct {
		fields   fields
		acquires slab[acquireSlot]
		releases slab[releaseSlot]
		messages messages[lockdv1.SessionRequest, *lockdv1.SessionRequest]
		arm      lockdv1.SessionRequest_Batch
		batch    lockdv1.RequestBatch
	}
)

func (r *requestRoom) again() {
	r.acquires.again()
	r.releases.again()
	r.messages.again()
	r.arm.Batch, r.batch.Requests = nil, nil
}

// read reads a request, or a batch.
func (r *requestRoom) read(b []byte, m *lockdv1.SessionRequest) bool {
	f := &r.fields
	f.read(b)
	f.uint64(1, &m.RequestId)
	if f.number != 11 {
		r.readOne(f, m)
		return f.over()
	}
	batch, _ := f.enter(11, true)
	r.batch.Requests = r.messages.read(f, r.readOne)
	r.arm.Batch, m.Message = &r.batch, &r.arm
	f.leave(batch)
	return f.over()
}

// readOne reads a request that is no batch, of which the id may have been read.
func (r *requestRoom) readOne(f *fields, m *lockdv1.SessionRequest) {
	f.uint64(1, &m.RequestId)
	switch f.number {
	case 4:
		slot := r.acquires.next()
		slot.arm.Acquire, m.Message = &slot.acquire, &slot.arm
		f.acquire(&slot.acquire, &slot.durations)
	case 6:
		slot := r.releases.next()
		slot.arm.Release, m.Message = &slot.release, &slot.arm
		f.release(&slot.release)
	default: // of another kind: there are fields left
	}
}

// writeRequest writes a request, or a batch.
func writeRequest(f *fields, m *lockdv1.SessionRequest) {
	if batch, ok := m.GetMessage().(*lockdv1.SessionRequest_Batch); ok {
		f.value(1, m.GetRequestId())
		writeBatch(f, 11, batch.Batch.GetRequests(), writeOneRequest)
		return
	}
	writeOneRequest(f, m)
}

func writeOneRequest(f *fields, m *lockdv1.SessionRequest) {
	f.value(1, m.GetRequestId())
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		f.acquire(r.Acquire, nil)
	case *lockdv1.SessionRequest_Release:
		f.release(r.Release)
	default:
		f.odd = true
	}
}

func (f *fields) acquire(a *lockdv1.Acquire, room *durations) {
	if a == nil || len(a.GetNames())+len(a.GetItems()) > 0 || a.GetWaited() != nil { // what few requests have
		f.odd = true
		return
	}
	out, _ := f.enter(4, true)
	f.text(1, &a.Name)
	f.lockKind(3, &a.Kind)
	f.text(4, &a.Holder)
	f.uint32(5, &a.Permits)
	f.duration(6, &a.Wait, room, 0)
	f.duration(7, &a.Lease, room, 1)
	f.text(8, &a.Annotation)
	f.uint32(9, &a.Limit)
	f.numbers(11, &a.InsteadOf)
	f.text(12, &a.Actor)
	f.text(13, &a.Traceparent)
	f.leave(out)
}

func (f *fields) release(r *lockdv1.Release) {
	if r == nil {
		f.odd = true
		return
	}
	out, _ := f.enter(6, true)
	f.text(1, &r.Name)
	f.lockKind(2, &r.Kind)
	f.text(3, &r.Holder)
	f.uint64(4, &r.Fence)
	f.uint32(5, &r.Keep)
	f.leave(out)
}
