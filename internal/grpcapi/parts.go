package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// partBytes bounds the parts of a message: it may have one for each partBytes of its size limit. An empty part takes
	// two bytes on the wire and about a hundred in memory.
	partBytes = 64
	// uncounted is the size in bytes up to which parts are not counted: so small a message can do no harm.
	uncounted = 16 << 10
	// deepest is how deep messages may be nested. An item of a batch is five levels deep.
	deepest = 8
)

// parts counts what takes memory of its own when a message is decoded: elements of lists and maps, and nested messages.
type parts struct{ left int }

// fewParts says whether an encoded message has no more parts than most. If it cannot be decoded, the answer means
// nothing.
func fewParts(data mem.BufferSlice, of protoreflect.MessageDescriptor, most int) bool {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	p := parts{left: most}
	p.count(buf.ReadOnlyData(), of, 0)
	return p.left >= 0
}

func (p *parts) count(b []byte, of protoreflect.MessageDescriptor, depth int) {
	if depth > deepest {
		p.left = -1
		return
	}
	for len(b) > 0 && p.left >= 0 {
		n, t, size := protowire.ConsumeField(b)
		if size < 0 {
			return
		}
		if f := of.Fields().ByNumber(n); f != nil {
			_, _, tag := protowire.ConsumeTag(b)
			p.countField(b[tag:size], f, t, depth)
		}
		b = b[size:]
	}
}

// countField counts a field; b has it without its tag.
func (p *parts) countField(b []byte, f protoreflect.FieldDescriptor, t protowire.Type, depth int) {
	if inner := f.Message(); inner != nil && t == protowire.BytesType {
		p.left--
		value, _ := protowire.ConsumeBytes(b)
		p.count(value, inner, depth+1)
		return
	}
	if f.Cardinality() == protoreflect.Repeated {
		p.left--
		if t == protowire.BytesType && f.IsPacked() {
			p.left -= len(b) / 8 // numbers, which need no memory but their own
		}
	}
}
