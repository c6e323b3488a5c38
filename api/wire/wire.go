// Package wire is gRPC's protobuf codec for sessions: it reads and writes the messages that come in great numbers
// without reflection and with few allocations, and all others as gRPC does.
//
// Those are Acquire, Release, Granted and Released, alone or in batches. What is read is what package proto would have
// read, and what is written means the same. Whatever is out of the ordinary, such as a field that a newer version
// added, is left to package proto.
//
// It does not write unknown fields: it is for messages that this program makes.
//
// Who reads a stream into a Request or a Response has the frequent messages read into the same memory again and again.
package wire

import (
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec that does the rest
	"google.golang.org/grpc/mem"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Codec is a codec for gRPC.
type Codec struct{ encoding.CodecV2 }

// New returns a Codec.
func New() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Marshal encodes a message.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	var data mem.Buffer
	switch m := v.(type) {
	case *lockdv1.SessionRequest:
		data = encode(m, len(m.GetBatch().GetRequests()), writeRequest)
	case *lockdv1.SessionResponse:
		data = encode(m, len(m.GetBatch().GetResponses()), writeResponse)
	}
	if data == nil {
		return c.CodecV2.Marshal(v)
	}
	return mem.BufferSlice{data}, nil
}

// usualBytes is how many bytes an ordinary message takes.
const usualBytes = 128

// encode is nil for a message that is not for this package. Large buffers are used again, as gRPC does.
func encode[M any](m M, inBatch int, write func(*fields, M)) mem.Buffer {
	f := writers.Get().(*fields)
	defer writers.Put(f)
	size := usualBytes * (1 + inBatch)
	var pooled *[]byte
	if f.odd = false; mem.IsBelowBufferPoolingThreshold(size) {
		f.b = make([]byte, 0, size)
	} else {
		pooled = mem.DefaultBufferPool().Get(size)
		f.b = (*pooled)[:0]
	}
	write(f, m)
	b := f.b
	f.b = nil
	if pooled != nil && (f.odd || cap(b) != cap(*pooled)) { // it was too small
		mem.DefaultBufferPool().Put(pooled)
		pooled = nil
	}
	switch {
	case f.odd:
		return nil
	case pooled == nil:
		return mem.SliceBuffer(b)
	}
	*pooled = b
	return mem.NewBuffer(pooled, mem.DefaultBufferPool())
}

var writers = sync.Pool{New: func() any { return &fields{writing: true} }}

// Unmarshal decodes a message.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	var done bool
	switch m := v.(type) {
	case *lockdv1.SessionRequest:
		done = decode(data, m, new(requestRoom).read)
	case *Request:
		m.Free()
		m.room = requestRooms.Get().(*requestRoom)
		done = decode(data, &m.SessionRequest, m.room.read)
	case *lockdv1.SessionResponse:
		done = decode(data, m, new(responseRoom).read)
	case *Response:
		m.Free()
		m.room = responseRooms.Get().(*responseRoom)
		done = decode(data, &m.SessionResponse, m.room.read)
	}
	if done {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v) // forgets what was read so far
}

func decode[M interface{ Reset() }](data mem.BufferSlice, m M, read func([]byte, M) bool) bool {
	m.Reset()
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return read(buf.ReadOnlyData(), m)
}
