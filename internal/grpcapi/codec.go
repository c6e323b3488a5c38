package grpcapi

import (
	"fmt"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// grace is the factor from the frame size that lockd announces to gRPC's own limit. gRPC ends the call for a message
// above its limit, or for one that cannot be decoded, with a status of its own. Below that limit frameCodec marks such
// messages instead, so that the caller gets a reason from the table and the session lives on.
const grace = 4

// The marks are unknown fields whose number no message of ours has.
const (
	markTooLarge   protowire.Number = 1<<29 - 1
	markUnreadable protowire.Number = 1<<29 - 2
	markTooMany    protowire.Number = 1<<29 - 3
)

// marks are the errors that the marks stand for.
var marks = map[protowire.Number]error{
	markTooLarge:   session.ErrFrameTooLarge,
	markUnreadable: badMessage("not a message of this protocol, or text that is not UTF-8"),
	markTooMany:    badMessage("too many requests, names and other parts"),
}

func badMessage(detail string) error {
	return fmt.Errorf("decode: %w", lock.Invalid("message", lock.ReasonMessage, detail))
}

// frameCodec is a protobuf codec that marks bad messages instead of returning an error.
type frameCodec struct {
	wire.Codec
	limit int // of a message of a session
	unary int // of any other
}

func newFrameCodec(limit, unary int) frameCodec {
	return frameCodec{Codec: wire.New(), limit: limit, unary: min(limit, unary)}
}

// Unmarshal never fails for messages of lockd: it marks bad ones. One that cannot be decoded keeps what could be read,
// often its request id. Of one that is too large or has too many parts only the request id is read: decoded it could be
// fifty times as large.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ours := v.(proto.Message)
	in, first := v.(*incoming)
	if in != nil {
		m, first, in.odd = &in.SessionRequest, in.first, data.Len()
	}
	switch limit := c.limitOf(data, m, first); {
	case !ours:
		return c.Codec.Unmarshal(data, v)
	case data.Len() > limit:
		passOver(data, m, markTooLarge)
	case data.Len() > uncounted && !fewParts(data, m.ProtoReflect().Descriptor(), limit/partBytes):
		passOver(data, m, markTooMany)
	case in != nil && c.UnmarshalFrequent(data, m):
		in.odd = 0
	case c.CodecV2.Unmarshal(data, m) != nil:
		mark(m, markUnreadable)
	}
	return nil
}

// incoming is a message of a session as it came.
type incoming struct {
	lockdv1.SessionRequest
	first bool // of its stream
	odd   int  // its size in bytes; 0 if it is of a frequent kind, which is read fast
}

// price is what reading the message costs beyond what any request costs.
func (in *incoming) price() time.Duration {
	requests := max(1, len(in.GetBatch().GetRequests()))
	return time.Duration(max(0, in.odd-requests*partBytes)) * limits.OddByte
}

// limitOf is how many bytes a message may have. An Open that resumes a session may be as large as gRPC takes, because a
// session can have more holds than fit into one frame, and would lose them all. Messages of unary calls must be small,
// because they stay in memory while the calls wait for their turn.
func (c frameCodec) limitOf(data mem.BufferSlice, m proto.Message, first bool) int {
	if _, ok := m.(*lockdv1.SessionRequest); !ok {
		return c.unary
	}
	if first && data.Len() > uncounted && opens(data) {
		return grace * c.limit
	}
	return c.limit
}

// eachField goes over the fields of an encoded message, as far as it can be read.
func eachField(data mem.BufferSlice, each func(n protowire.Number, t protowire.Type, field []byte)) (whole bool) {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	for b := buf.ReadOnlyData(); len(b) > 0; {
		n, t, size := protowire.ConsumeField(b)
		if size < 0 {
			return false
		}
		each(n, t, b[:size])
		b = b[size:]
	}
	return true
}

// opens says whether a SessionRequest is an Open and nothing else.
func opens(data mem.BufferSlice) bool {
	is, only := false, true
	whole := eachField(data, func(n protowire.Number, t protowire.Type, _ []byte) {
		is = is || n == 2
		only = only && (n == 1 || n == 2 && t == protowire.BytesType)
	})
	return whole && is && only
}

// passOver marks a message, of which it reads no more than its request id.
func passOver(data mem.BufferSlice, m proto.Message, why protowire.Number) {
	proto.Reset(m)
	if r, ok := m.(*lockdv1.SessionRequest); ok {
		eachField(data, func(n protowire.Number, t protowire.Type, field []byte) {
			if n == 1 && t == protowire.VarintType {
				_, _, tag := protowire.ConsumeTag(field)
				r.RequestId, _ = protowire.ConsumeVarint(field[tag:])
			}
		})
	}
	mark(m, why)
}

func mark(m proto.Message, n protowire.Number) {
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), 1))
}

// marked is the error that a message's mark stands for, nil if it has none.
func marked(v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	n, _, _ := protowire.ConsumeTag(m.ProtoReflect().GetUnknown())
	return marks[n]
}
