package grpcapi

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lockd-io/lockd/api/wire"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// grace is by how much gRPC's own limit is above the announced one. gRPC ends a call for a larger message, or for one
// that is no message, with a status of its own; below its limit frameCodec lets the message pass with a mark, so that
// the caller gets a reason from the table and a session lives on.
const grace = 4

// The marks are unknown fields whose number no message of ours has.
const (
	markTooLarge   protowire.Number = 1<<29 - 1
	markUnreadable protowire.Number = 1<<29 - 2
)

// frameCodec is a protobuf codec with marks instead of errors.
type frameCodec struct {
	encoding.CodecV2
	limit int
}

func newFrameCodec(limit int) frameCodec {
	return frameCodec{CodecV2: wire.New(), limit: limit}
}

// Unmarshal never fails for our messages. What could be read of a bad one is there, often its request id.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ours := v.(proto.Message)
	switch {
	case !ours:
		return err
	case err != nil:
		mark(m, markUnreadable)
	case data.Len() > c.limit:
		mark(m, markTooLarge)
	}
	return nil
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
	if n == markTooLarge {
		return broker.ErrFrameTooLarge
	}
	if n == markUnreadable {
		return fmt.Errorf("decode: %w", &lock.InvalidError{
			Field: "message", Reason: lock.ReasonMessage, Detail: "not a message of this protocol, or text that is not UTF-8",
		})
	}
	return nil
}
