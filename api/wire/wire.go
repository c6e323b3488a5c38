// Package wire is gRPC's protobuf codec for sessions: it reads and writes the frequent messages by generated code,
// without reflection, and all others as gRPC does.
//
// The frequent messages are Acquire, Release, Granted and Released, alone or in batches. The codec reads what package
// proto would read, and writes what means the same, with one difference: it cuts a number that is too large for 64
// bits, unless it is an id or a fence of a request.
//
// A reader of a stream gives the memory of a message back by ResetVT. After that it may keep the message's texts, and
// messages inside it that are not frequent, but no lists or other parts of frequent ones.
package wire

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec that does the rest
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/reflect/protoreflect"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Codec is a codec for gRPC.
type Codec struct{ encoding.CodecV2 }

// New returns a Codec.
func New() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// generated is a message with generated code.
type generated interface {
	Reset()
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// smallBytes is how long one request or answer usually is at most.
const smallBytes = 128

// small is a small message in one allocation.
type small struct {
	bytes [smallBytes]byte
	text  mem.SliceBuffer
	slice [1]mem.Buffer
}

// Marshal encodes a message.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(generated)
	if !ok || !frequent(v) {
		return c.CodecV2.Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		if size > smallBytes {
			b := make([]byte, size)
			_, err := m.MarshalToSizedBufferVT(b)
			return mem.BufferSlice{mem.SliceBuffer(b)}, err
		}
		r := &small{}
		r.text = r.bytes[:size]
		r.slice[0] = &r.text
		_, err := m.MarshalToSizedBufferVT(r.text)
		return r.slice[:], err
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	_, err := m.MarshalToSizedBufferVT(*b)
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, err
}

// Unmarshal decodes a message.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if c.UnmarshalFrequent(data, v) {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v) // it first resets v
}

// UnmarshalFrequent decodes a message if it is a frequent one.
func (Codec) UnmarshalFrequent(data mem.BufferSlice, v any) bool {
	m, ok := v.(generated)
	return ok && decode(data, m) && frequent(v)
}

// decode also fails if the message would be written with other bytes than were read: package proto handles what is
// unusual.
func decode(data mem.BufferSlice, m generated) bool {
	m.Reset()
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return m.UnmarshalVT(buf.ReadOnlyData()) == nil && m.SizeVT() == buf.Len()
}

// frequent says whether a message is a frequent one, without unknown fields, and with texts that are UTF-8: generated
// code does not check that.
func frequent(v any) bool {
	switch m := v.(type) {
	case *lockdv1.SessionRequest:
		if large(m.GetRequestId()) {
			return false
		}
		switch r := m.GetMessage().(type) {
		case *lockdv1.SessionRequest_Acquire:
			a := r.Acquire
			return known(m, a) && len(a.GetNames())+len(a.GetItems()) == 0 &&
				!slices.ContainsFunc(a.GetInsteadOf(), large) &&
				valid(a.GetName(), a.GetHolder(), a.GetAnnotation(), a.GetActor(), a.GetTraceparent())
		case *lockdv1.SessionRequest_Release:
			return known(m, r.Release) && !large(r.Release.GetFence()) && valid(r.Release.GetName(), r.Release.GetHolder())
		case *lockdv1.SessionRequest_Batch:
			return known(m, r.Batch) && all(r.Batch.GetRequests())
		}
	case *lockdv1.SessionResponse:
		switch r := m.GetMessage().(type) {
		case *lockdv1.SessionResponse_Granted:
			for _, h := range r.Granted.GetHolds() {
				if !known(h) || !valid(h.GetName(), h.GetHolder()) {
					return false
				}
			}
			return known(m, r.Granted) && (r.Granted.Validity == nil || known(r.Granted.Validity))
		case *lockdv1.SessionResponse_Released:
			return known(m, r.Released) && r.Released.Validity == nil
		case *lockdv1.SessionResponse_Batch:
			return known(m, r.Batch) && all(r.Batch.GetResponses())
		}
	}
	return false
}

// large says whether a number may have been cut from more than 64 bits.
func large(n uint64) bool { return n >= 1<<63 }

// known says whether all of the messages are set, without fields of a newer version.
func known(messages ...protoreflect.ProtoMessage) bool {
	for _, m := range messages {
		if r := m.ProtoReflect(); !r.IsValid() || len(r.GetUnknown()) > 0 {
			return false
		}
	}
	return true
}

func all[M any](messages []M) bool {
	for _, m := range messages {
		if !frequent(m) {
			return false
		}
	}
	return true
}

func valid(texts ...string) bool {
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return false
		}
	}
	return true
}
