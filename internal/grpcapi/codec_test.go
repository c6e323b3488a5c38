package grpcapi_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/limits"
)

// field appends a field of bytes to a message.
func field(b []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
}

// id is the field of a request with the id 9.
var id = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9)

// A message that is refused for its size costs its size: two bytes on the wire can become a hundred in memory, and any
// client can send such a message on each of a thousand streams.
func TestAMessageThatIsTooLargeIsNotDecoded(t *testing.T) {
	const limit = 1 << 20
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
			must(t, codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m))
		})
		if allocs > 100 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
		if size := proto.Size(m); m.GetRequestId() != 9 || size > 100 {
			t.Errorf("%s: got request %d, %d bytes, want only its id", name, m.GetRequestId(), size)
		}
	}
}

// A message within the limit must not take many times as much in memory either.
func TestAMessageOfManyPartsIsNotDecoded(t *testing.T) {
	const limit = 1 << 20
	fill := func(part []byte) []byte { return bytes.Repeat(part, (limit-64)/len(part)) }
	var label []byte
	for i := range limit / 16 {
		label = field(label, 2, field(nil, 1, fmt.Append(nil, i)))
	}
	deep := []byte{}
	for range 5000 {
		deep = field(nil, 11, field(nil, 1, deep))
	}
	for name, raw := range map[string][]byte{
		"a batch of empty requests": field(id, 11, fill([]byte{0x0a, 0})),
		"an Acquire of empty names": field(id, 4, fill([]byte{0x12, 0})),
		"an Acquire of empty items": field(id, 4, fill([]byte{0x52, 0})),
		"a batch of Acquires of empty names": field(id, 11,
			fill(field(nil, 1, field(nil, 4, bytes.Repeat([]byte{0x12, 0}, 1000))))),
		"an Open of many labels":            field(id, 2, label),
		"one empty Acquire after the other": append(fill([]byte{0x22, 0}), id...),
		"batches in batches":                append(id, deep...),
	} {
		codec, m := grpcapi.NewFrameCodec(limit), &lockdv1.SessionRequest{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must(t, codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 3*limit {
			t.Errorf("%s: %d bytes on the wire take %d in memory", name, len(raw), took)
		}
	}
}

// What clients send in earnest is decoded: a full batch, and batches of requests for several names.
func TestAFullMessageIsDecoded(t *testing.T) {
	const limit = 1 << 20
	full, several := &lockdv1.RequestBatch{}, &lockdv1.RequestBatch{}
	for i := range 1024 {
		full.Requests = append(full.Requests,
			acquire(uint64(i), &lockdv1.Acquire{Name: strings.Repeat("n", 500), Wait: seconds(1)}))
	}
	for i := range 64 {
		items := make([]*lockdv1.AcquireItem, 64)
		for n := range items {
			items[n] = &lockdv1.AcquireItem{Name: strings.Repeat("n", 200)}
		}
		several.Requests = append(several.Requests, acquire(uint64(i), &lockdv1.Acquire{Items: items, Lease: seconds(1)}))
	}
	for _, batch := range []*lockdv1.RequestBatch{full, several} {
		want := &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}}
		raw, err := proto.Marshal(want)
		got := &lockdv1.SessionRequest{}
		if err != nil || grpcapi.NewFrameCodec(limit).Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got) != nil ||
			!proto.Equal(got, want) {
			t.Errorf("a batch of %d requests in %d bytes: got %.200v, %v", len(batch.GetRequests()), len(raw), got, err)
		}
	}
}

// A message that takes long to read is charged by its bytes, and one that clients send all the time is not.
func TestOddMessagesAreCharged(t *testing.T) {
	codec := grpcapi.NewTranslation()
	long := &lockdv1.Acquire{Name: "n", Annotation: strings.Repeat("a", 4000)}
	usual, err := proto.Marshal(acquire(1, long))
	one := &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Extend{Extend: &lockdv1.Extend{
		Name: strings.Repeat("n", 40), Fence: 1, Lease: seconds(1),
	}}}
	extends, err2 := proto.Marshal(inBatch(slices.Repeat([]*lockdv1.SessionRequest{one}, 64)...))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	arms := append(usual, bytes.Repeat([]byte{0x22, 0, 0x5a, 0}, 4000)...)
	for name, c := range map[string]struct {
		frame []byte
		least time.Duration
	}{
		"an Acquire": {usual, 0}, "a batch of Extends": {extends, 0},
		"arms again and again":      {arms, 16_000 * limits.OddByte},
		"a frame that is too large": {bytes.Repeat([]byte{0x0a, 0}, 1<<21), 1 << 22 * limits.OddByte},
	} {
		if got := codec.Price(c.frame); got > 2*c.least || got < c.least*9/10 {
			t.Errorf("%s: got %v, want about %v", name, got, c.least)
		}
	}
}
