package grpcapi_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/grpcapi"
)

// A message that is refused for its size costs its size: two bytes on the wire can become a hundred in memory, and any
// client can send such a message on each of a thousand streams.
func TestAMessageThatIsTooLargeIsNotDecoded(t *testing.T) {
	const limit = 1 << 20
	field := func(b []byte, n protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
	}
	id := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9)
	tiny := bytes.Repeat([]byte{0x0a, 0}, limit)
	for name, raw := range map[string][]byte{
		"a batch of empty requests":         field(id, 11, tiny),
		"an id behind them":                 append(field(nil, 11, tiny), id...),
		"an Acquire of many names":          field(id, 4, bytes.Repeat([]byte{0x12, 0}, limit)),
		"what is no message after all that": append(field(id, 11, tiny), 0xff),
	} {
		codec := grpcapi.NewFrameCodec(limit)
		m := &lockdv1.SessionRequest{}
		allocs := testing.AllocsPerRun(1, func() {
			if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 100 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
		if size := proto.Size(m); m.GetRequestId() != 9 || size > 100 {
			t.Errorf("%s: got request %d, %d bytes, want only its id", name, m.GetRequestId(), size)
		}
	}
}
