package wire_test

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
	"github.com/lockd-io/lockd/test/harness"
)

// rounds is how many messages of each kind are made.
const rounds = 1000

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

// A message that is read into again and again shows nothing of what was there before.
func TestMessagesAreReadIntoTheSamePlace(t *testing.T) {
	g, codec := generator{rand.New(rand.NewPCG(5, 6))}, wire.New()
	var requests lockdv1.SessionRequest
	var responses lockdv1.SessionResponse
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
			requests.ResetVT()
			responses.ResetVT()
		}
	}
}

// checkWritten compares what the codec writes and reads with what package proto does.
func checkWritten(t *testing.T, m proto.Message) {
	t.Helper()
	want, err := proto.Marshal(m)
	var others sync.WaitGroup
	others.Go(func() { _, _ = proto.Marshal(m) }) // others may read what is written
	data, got := wire.New().Marshal(m)
	others.Wait()
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
	if wantErr != nil && err == nil && cutNumber(b, m) {
		return
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("read %x: got %v, package proto says %v", b, err, wantErr)
	}
	if !proto.Equal(m, want) {
		t.Errorf("read %x: got %v, package proto reads %v", b, m, want)
	}
}

// cutNumber says whether a message is what package proto reads when numbers that are too large for 64 bits are cut: of
// their tenth bytes only the lowest bits count.
func cutNumber(b []byte, m proto.Message) bool {
	cut, more := bytes.Clone(b), 0 // how many bytes before this one say that another one follows
	for i, c := range b {
		if c >= 0x80 {
			more++
			continue
		}
		if more == 9 {
			cut[i] &= 1
		}
		more = 0
	}
	want := m.ProtoReflect().New().Interface()
	return proto.Unmarshal(cut, want) == nil && proto.Equal(m, want)
}

// Else a request would be answered under another id, or take another hold.
func TestIdsAndFencesAbove64BitsAreRefused(t *testing.T) {
	for _, m := range []*lockdv1.SessionRequest{
		{RequestId: 1 << 63, Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{Name: "n"}}},
		{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{Name: "n", Fence: 1 << 63}}},
		{Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{InsteadOf: []uint64{1, 1 << 63}}}},
	} {
		b, err := proto.Marshal(m)
		harness.Must(t, err)
		b[bytes.LastIndex(b, []byte{0x80, 0x80, 1})+2] = 3
		if err := wire.New().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m); err == nil {
			t.Errorf("%x was read as %v", b, m)
		}
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

// A text that is not UTF-8 is refused in each field of the frequent messages: the generated code would take it.
func TestEachTextIsUTF8(t *testing.T) {
	for _, frequent := range []proto.Message{
		&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{}}},
		&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{}}},
		&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Granted{Granted: &lockdv1.Granted{
			Holds: []*lockdv1.Hold{{}},
		}}},
		&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Released{Released: &lockdv1.Released{}}},
	} {
		for inside := range messagesOf(frequent.ProtoReflect()) {
			for i := range inside.Descriptor().Fields().Len() {
				f := inside.Descriptor().Fields().Get(i)
				if f.Kind() != protoreflect.StringKind || f.IsList() {
					continue
				}
				inside.Set(f, protoreflect.ValueOfString("\xff"))
				if _, err := wire.New().Marshal(frequent); err == nil {
					t.Errorf("%s is written", f.FullName())
				}
				inside.Set(f, protoreflect.ValueOfString("MARK"))
				b, err := proto.Marshal(frequent)
				harness.Must(t, err)
				checkRead(t, bytes.Replace(b, []byte("MARK"), []byte("MAR\xff"), 1), frequent.ProtoReflect().New().Interface())
				inside.Clear(f)
			}
		}
	}
}

// messagesOf are a message and all inside of it.
func messagesOf(m protoreflect.Message) iter.Seq[protoreflect.Message] {
	return func(yield func(protoreflect.Message) bool) {
		_ = protorange.Range(m, func(p protopath.Values) error {
			last := p.Index(-1).Value.Interface()
			if inside, ok := last.(protoreflect.Message); ok && !yield(inside) {
				return protorange.Terminate
			}
			return nil
		})
	}
}

// An arm may be there without its message.
func TestAnArmWithoutAMessageIsWritten(t *testing.T) {
	for _, m := range []proto.Message{
		&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{}},
		&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{}},
		&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Granted{}},
		&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Released{}},
	} {
		checkWritten(t, m)
	}
}

// generator makes random messages: the ordinary ones, and whatever is out of the ordinary. It knows their fields by
// reflection: a new field that the codec leaves out is found.
type generator struct{ *rand.Rand }

func (g generator) request(batch bool) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{}
	g.message(m.ProtoReflect(), []protoreflect.Name{"acquire", "release", "batch", "heartbeat", "cancel"}, batch)
	return m
}

func (g generator) response(batch bool) *lockdv1.SessionResponse {
	m := &lockdv1.SessionResponse{}
	g.message(m.ProtoReflect(), []protoreflect.Name{"granted", "released", "batch", "not_granted", "result"}, batch)
	return m
}

// message fills a message and one of its arms, mostly one of the first three, the third of which is a batch.
func (g generator) message(m protoreflect.Message, arms []protoreflect.Name, batch bool) {
	g.fill(m)
	arm := arms[min(g.IntN(5), 2+g.IntN(3))]
	f := m.Descriptor().Fields().ByName(arm)
	switch {
	case g.IntN(20) == 0, arm == "batch" && !batch:
	case arm != "batch":
		g.fill(m.Mutable(f).Message())
	default:
		list := f.Message().Fields().Get(0)
		inner := m.Mutable(f).Message().Mutable(list).List()
		for range g.IntN(40) + 40*g.IntN(3)/2 {
			g.message(inner.AppendMutable().Message(), arms, g.IntN(20) == 0)
		}
	}
}

// fill sets most of the fields that are in no oneof, and few of the lists.
func (g generator) fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.ContainingOneof() != nil, f.IsMap(), g.IntN(5) == 0:
		case f.Name() == "holds":
			for range []int{1, 1, 1, 1, 0, 2}[g.IntN(6)] {
				g.fill(m.Mutable(f).List().AppendMutable().Message())
			}
		case f.IsList() && g.IntN(4) > 0, f.Name() == "waited" && g.IntN(4) > 0:
		case f.IsList() && f.Message() != nil:
			g.fill(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList():
			for range 1 + g.IntN(3) {
				m.Mutable(f).List().Append(g.value(f))
			}
		case f.Message() != nil:
			g.fill(m.Mutable(f).Message())
		default:
			m.Set(f, g.value(f))
		}
	}
}

func (g generator) value(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := g.Uint64() >> g.IntN(65)
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(n)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n)
	default:
		panic("no value for " + f.FullName())
	}
}

func (g generator) text() string {
	switch g.IntN(20) {
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
