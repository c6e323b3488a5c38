package wire_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

// rounds is how many messages of each kind are made.
const rounds = 3000

// Whatever the messages are, they arrive as package proto writes and reads them.
func TestMessagesAreWhatPackageProtoMakesOfThem(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range rounds {
		checkWritten(t, g.request(true))
		checkWritten(t, g.response(true))
		if t.Failed() {
			return
		}
	}
}

// What a Request or a Response is read into again and again shows nothing of what was there before.
func TestMessagesAreReadIntoTheSamePlace(t *testing.T) {
	g, codec := generator{rand.New(rand.NewPCG(5, 6))}, wire.New()
	var requests wire.Request
	var responses wire.Response
	for range rounds {
		for got, want := range map[proto.Message]proto.Message{&requests: g.request(true), &responses: g.response(true)} {
			b, err := proto.Marshal(want)
			if err != nil {
				continue // a text that is not UTF-8
			}
			if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, got); err != nil || !proto.Equal(got, want) {
				t.Fatalf("read %x: got %v, %v, want %v", b, got, err, want)
			}
		}
		if g.IntN(10) > 0 { // else the next one does it
			requests.Free()
			responses.Free()
		}
	}
}

// checkWritten compares what the codec writes and reads with what package proto does.
func checkWritten(t *testing.T, m proto.Message) {
	t.Helper()
	want, err := proto.Marshal(m)
	data, got := wire.New().Marshal(m)
	if (err == nil) != (got == nil) {
		t.Fatalf("write %v: got %v, package proto says %v", m, got, err)
	}
	if err != nil {
		return
	}
	back := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data.Materialize(), back); err != nil || !proto.Equal(back, m) {
		t.Errorf("wrote %v: package proto reads %v, %v", m, back, err)
	}
	checkRead(t, want, m.ProtoReflect().New().Interface())
}

// checkRead compares what the codec reads with what package proto reads. m is of the type to be read.
func checkRead(t *testing.T, b []byte, m proto.Message) {
	t.Helper()
	want := m.ProtoReflect().New().Interface()
	wantErr := proto.Unmarshal(b, want)
	err := wire.New().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("read %x: got %v, package proto says %v", b, err, wantErr)
	}
	if !proto.Equal(m, want) {
		t.Errorf("read %x: got %v, package proto reads %v", b, m, want)
	}
}

// The same bytes mean the same, also those that no lockd writes.
func FuzzRead(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	for range 50 {
		for _, m := range []proto.Message{g.request(true), g.response(true)} {
			if b, err := proto.Marshal(m); err == nil {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkRead(t, b, &lockdv1.SessionRequest{})
		checkRead(t, b, &lockdv1.SessionResponse{})
	})
}

// Bytes that were changed on the way: most are still fields of some kind.
func TestOddBytesAreReadAsPackageProtoDoes(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	for range rounds {
		b, err := proto.Marshal(g.request(true))
		if err != nil || len(b) == 0 {
			continue
		}
		for range 1 + g.IntN(3) {
			b[g.IntN(len(b))] = byte(g.IntN(256))
		}
		if g.IntN(4) == 0 {
			b = b[:g.IntN(len(b))]
		}
		checkRead(t, b, &lockdv1.SessionRequest{})
		checkRead(t, b, &lockdv1.SessionResponse{})
		if t.Failed() {
			return
		}
	}
}

// A new field of a message that this codec writes must not be left out.
func TestEveryFieldIsWritten(t *testing.T) {
	for _, m := range []*lockdv1.SessionRequest{
		{Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{}}},
		{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{}}},
	} {
		for _, simple := range []bool{true, false} {
			fill(m.ProtoReflect(), simple)
			checkWritten(t, m)
		}
	}
	for _, m := range []*lockdv1.SessionResponse{
		{Message: &lockdv1.SessionResponse_Granted{Granted: &lockdv1.Granted{}}},
		{Message: &lockdv1.SessionResponse_Released{Released: &lockdv1.Released{}}},
	} {
		for _, simple := range []bool{true, false} {
			fill(m.ProtoReflect(), simple)
			checkWritten(t, m)
		}
	}
}

// fill sets all fields, of a oneof the one that is set already. If it is to be simple it leaves out what several names
// need, and what only one of several holds has.
func fill(m protoreflect.Message, simple bool) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		of := f.ContainingOneof()
		switch {
		case of != nil && m.WhichOneof(of) != f, simple && (f.Name() == "names" || f.Name() == "items"),
			simple && f.FullName() == "lockd.v1.Released.validity":
		case f.IsList() && f.Message() != nil:
			if m.Get(f).List().Len() == 0 {
				fill(m.Mutable(f).List().AppendMutable().Message(), simple)
			}
		case f.IsList() && f.Kind() == protoreflect.Uint64Kind:
			if l := m.Mutable(f).List(); l.Len() == 0 {
				l.Append(protoreflect.ValueOfUint64(7))
				l.Append(protoreflect.ValueOfUint64(8))
			}
		case f.IsList():
			if m.Get(f).List().Len() == 0 {
				m.Mutable(f).List().Append(protoreflect.ValueOfString("text"))
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), simple)
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(3))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("text"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(7))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(7))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(7))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(7))
		default:
			panic("fill does not know " + f.FullName())
		}
	}
}

// A message that is used again holds nothing of what it was.
func TestReadForgetsWhatTheMessageWas(t *testing.T) {
	m := &lockdv1.SessionRequest{RequestId: 7, Message: &lockdv1.SessionRequest_Goodbye{}}
	if err := wire.New().Unmarshal(nil, m); err != nil || m.GetRequestId() != 0 || m.GetMessage() != nil {
		t.Errorf("got %v, %v, want an empty message", m, err)
	}
}

// generator makes random messages: the ordinary ones, and whatever is out of the ordinary.
type generator struct{ *rand.Rand }

func (g generator) text() string {
	switch g.IntN(12) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("ä", g.IntN(300))
	case 2:
		return strings.Repeat("x", 100+g.IntN(20_000))
	case 3:
		return "no text \xff"
	}
	return "name:" + string(rune('a'+g.IntN(26)))
}

func (g generator) number() uint64 { return g.Uint64() >> g.IntN(65) }

func (g generator) duration() *durationpb.Duration {
	if g.IntN(2) == 0 {
		return nil
	}
	return durationpb.New(time.Duration(g.number()))
}

func (g generator) kind() lockdv1.LockKind { return lockdv1.LockKind(int32(g.number())) }

func (g generator) request(batch bool) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{RequestId: g.number()}
	switch n := g.IntN(9); {
	case n < 2:
		a := &lockdv1.Acquire{
			Name: g.text(), Kind: g.kind(), Holder: g.text(), Permits: uint32(g.number()), Limit: uint32(g.number()),
			Wait: g.duration(), Lease: g.duration(), Annotation: g.text(), Actor: g.text(), Traceparent: g.text(),
		}
		if g.IntN(4) == 0 {
			a.Names = []string{g.text()}
			a.Items = []*lockdv1.AcquireItem{{Name: g.text()}}
		}
		if g.IntN(4) == 0 {
			a.Waited = g.duration()
		}
		for range g.IntN(12) - 8 {
			a.InsteadOf = append(a.InsteadOf, g.number())
		}
		m.Message = &lockdv1.SessionRequest_Acquire{Acquire: a}
	case n < 4:
		m.Message = &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
			Name: g.text(), Kind: g.kind(), Holder: g.text(), Fence: g.number(), Keep: uint32(g.number()),
		}}
	case n == 4:
		m.Message = &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: g.number()}}
	case n == 5:
		m.Message = &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: g.number()}}
	case n < 8 && batch:
		b := &lockdv1.RequestBatch{}
		for range g.IntN(40) {
			b.Requests = append(b.Requests, g.request(g.IntN(20) == 0))
		}
		m.Message = &lockdv1.SessionRequest_Batch{Batch: b}
	}
	return m
}

func (g generator) validity() *lockdv1.Validity {
	if g.IntN(4) == 0 {
		return nil
	}
	return &lockdv1.Validity{Remaining: g.duration(), Anchor: g.number(), AnchorAge: g.duration()}
}

func (g generator) response(batch bool) *lockdv1.SessionResponse {
	m := &lockdv1.SessionResponse{RequestId: g.number()}
	switch n := g.IntN(9); {
	case n < 2:
		granted := &lockdv1.Granted{Validity: g.validity(), HoldCount: uint32(g.number()), Auto: g.IntN(2) == 0}
		for range []int{1, 1, 1, 1, 0, 2}[g.IntN(6)] {
			granted.Holds = append(granted.Holds, &lockdv1.Hold{
				Name: g.text(), Kind: g.kind(), Holder: g.text(), Fence: g.number(), AcquiredBy: g.number(),
			})
		}
		m.Message = &lockdv1.SessionResponse_Granted{Granted: granted}
	case n < 4:
		m.Message = &lockdv1.SessionResponse_Released{Released: &lockdv1.Released{Remaining: uint32(g.number())}}
		if g.IntN(3) == 0 {
			m.GetReleased().Validity = g.validity()
		}
	case n == 4:
		m.Message = &lockdv1.SessionResponse_NotGranted{NotGranted: &lockdv1.NotGranted{Name: g.text()}}
	case n == 5:
		failure := &lockdv1.Failure{Code: 3, Message: g.text()}
		m.Message = &lockdv1.SessionResponse_Result{Result: &lockdv1.Result{Failure: failure}}
	case n < 8 && batch:
		b := &lockdv1.ResponseBatch{}
		for range g.IntN(40) {
			b.Responses = append(b.Responses, g.response(g.IntN(20) == 0))
		}
		m.Message = &lockdv1.SessionResponse_Batch{Batch: b}
	}
	return m
}

// BenchmarkBatch writes and reads a full frame of each direction, with this codec and with gRPC's.
func BenchmarkBatch(b *testing.B) {
	var requests []*lockdv1.SessionRequest
	var responses []*lockdv1.SessionResponse
	for i := range uint64(32) {
		requests = append(requests, &lockdv1.SessionRequest{RequestId: 2 * i, Message: &lockdv1.SessionRequest_Acquire{
			Acquire: &lockdv1.Acquire{Name: "bench:name", Kind: 1},
		}}, &lockdv1.SessionRequest{RequestId: 2*i + 1, Message: &lockdv1.SessionRequest_Release{
			Release: &lockdv1.Release{Name: "bench:name", Kind: 1, Holder: "#1234", Fence: 1 << 30},
		}})
		responses = append(responses, &lockdv1.SessionResponse{RequestId: 2 * i, Message: &lockdv1.SessionResponse_Granted{
			Granted: &lockdv1.Granted{
				Holds: []*lockdv1.Hold{{Name: "bench:name", Kind: 1, Holder: "#1234", Fence: 1 << 30, AcquiredBy: 1234}},
				Validity: &lockdv1.Validity{
					Remaining: durationpb.New(29 * time.Second), Anchor: 3, AnchorAge: durationpb.New(time.Second / 3),
				}, HoldCount: 1, Auto: true,
			},
		}}, &lockdv1.SessionResponse{
			RequestId: 2*i + 1,
			Message:   &lockdv1.SessionResponse_Released{Released: &lockdv1.Released{}},
		})
	}
	in := &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: &lockdv1.RequestBatch{Requests: requests}}}
	out := &lockdv1.SessionResponse{
		Message: &lockdv1.SessionResponse_Batch{Batch: &lockdv1.ResponseBatch{Responses: responses}},
	}
	codec := wire.New()
	b.Run("wire", func(b *testing.B) { roundTrips(b, codec, in, out) })
	b.Run("grpc", func(b *testing.B) { roundTrips(b, codec.CodecV2, in, out) })
}

func roundTrips(b *testing.B, codec interface {
	Marshal(any) (mem.BufferSlice, error)
	Unmarshal(mem.BufferSlice, any) error
}, messages ...proto.Message,
) {
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range messages {
			data, err := codec.Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			if err := codec.Unmarshal(data, m.ProtoReflect().New().Interface()); err != nil {
				b.Fatal(err)
			}
			data.Free()
		}
	}
}
