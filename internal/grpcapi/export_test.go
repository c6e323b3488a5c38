package grpcapi

import (
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// ToStatus is toStatus for the tests of the table.
func ToStatus(err error) error { return toStatus(err) }

// ToFailure is toFailure for the same tests.
func ToFailure(err error) *lockdv1.Failure { return toFailure(err) }

// TableErrors are the errors of the table.
func TableErrors() []error {
	var errs []error
	for _, row := range table {
		errs = append(errs, row.err)
	}
	return errs
}

// NewFrameCodec is the codec that the server reads with.
func NewFrameCodec(limit int) encoding.CodecV2 { return newFrameCodec(limit, limit) }

// FromEvent is a translation, for tests of what no broker does at will.
func FromEvent(e session.Event) *lockdv1.SessionResponse {
	var a answer
	a.set(e)
	return &a.SessionResponse
}

// ToAcquire is setAcquire, for the same tests.
func ToAcquire(a *lockdv1.Acquire) (req request.Acquire, err error) {
	err = setAcquire(&req, a)
	return req, err
}

// Translation is what a stream does with its messages, without a session.
type Translation struct {
	c     conn
	codec frameCodec
}

// NewTranslation is that of a client that understands batches.
func NewTranslation() *Translation {
	return &Translation{conn{sessionService: &sessionService{log: zap.NewNop()}}, newFrameCodec(1<<20, 1<<20)}
}

// Read reads a frame and returns how many requests for the broker it has.
func (t *Translation) Read(frame []byte) int {
	var m incoming
	defer m.ResetVT()
	err := t.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(frame)}, &m)
	if err != nil || marked(&m.SessionRequest) != nil {
		return 0
	}
	for _, r := range m.GetBatch().GetRequests() {
		t.c.request(r)
	}
	defer t.c.forget()
	return len(t.c.piece)
}

// Price reads a frame and returns what that costs its tenant.
func (t *Translation) Price(frame []byte) time.Duration {
	var m incoming
	_ = t.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(frame)}, &m)
	return m.price()
}

// Write writes events and returns in how many frames.
func (t *Translation) Write(events []session.Event) (n int) {
	_ = sendAll(events, true, func(m *lockdv1.SessionResponse) error {
		data, err := t.codec.Marshal(m)
		if err == nil {
			data.Free()
			n++
		}
		return err
	})
	return n
}
