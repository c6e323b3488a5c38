package inbound

import (
	"encoding/binary"
	"time"
)

// The types of frames, and their flags.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	frameWindow       = 8
	frameContinuation = 9

	flagAck        = 0x1 // of settings
	flagEndStream  = 0x1 // of data and headers
	flagEndHeaders = 0x4
	flagPadded     = 0x8

	preface   = 24 // bytes that a client sends before its first frame
	headBytes = 9  // of a frame
)

// cost is what a frame costs a processor, in ns.
type cost struct{ frame, perByte time.Duration }

// What frames cost, measured with gRPC 1.85. What is part of any request costs nothing.
var (
	costs = [...]cost{
		frameData:         {0, 1},
		frameHeaders:      {0, 13},        // above freeBytes
		frameSettings:     {11_000, 1000}, // each setting may change all streams
		frameContinuation: {1000, 13},
	}
	otherCost   = cost{1000, 1}       // pings, window updates, resets, small parts of messages
	refusedCost = cost{frame: 12_000} // a call that began and was reset or refused
)

// freeBytes is how many bytes of headers a call may have for nothing. A frame of data with less is work without a
// request unless it ends a message: honest parts of messages are larger.
const freeBytes = 1 << 10

// costOf is what a frame with this header costs.
func costOf(f *head) time.Duration {
	c, size := otherCost, f.size
	if int(f.kind) < len(costs) && costs[f.kind] != (cost{}) && (f.kind != frameSettings || f.flags&flagAck == 0) {
		c = costs[f.kind]
	}
	if f.kind == frameHeaders {
		size = max(0, size-freeBytes)
	}
	return c.frame + time.Duration(size)*c.perByte
}

// head is the header of a frame.
type head struct {
	size        int
	kind, flags byte
	stream      uint32
}

// frames splits the bytes of one direction of a connection. The zero value begins with a frame.
type frames struct {
	skip int // bytes before the first frame
	buf  [headBytes]byte
	have int // of buf
	head     // of the frame at hand
	left int // bytes of its payload that did not pass yet
}

// next takes a part of b: a part of a payload, or bytes of a header. begins says that the header is complete. rest is
// what is left of b.
func (f *frames) next(b []byte) (payload, rest []byte, begins bool) {
	if f.skip > 0 {
		n := min(f.skip, len(b))
		f.skip -= n
		return nil, b[n:], false
	}
	if f.left > 0 {
		n := min(f.left, len(b))
		f.left -= n
		return b[:n], b[n:], false
	}
	n := copy(f.buf[f.have:], b)
	if f.have += n; f.have < headBytes {
		return nil, b[n:], false
	}
	f.have = 0
	f.head = head{
		size: int(f.buf[0])<<16 | int(f.buf[1])<<8 | int(f.buf[2]), kind: f.buf[3], flags: f.buf[4],
		stream: binary.BigEndian.Uint32(f.buf[5:]) &^ (1 << 31),
	}
	f.left = f.size
	return nil, b[n:], true
}

// between says whether no frame is under way.
func (f *frames) between() bool { return f.skip == 0 && f.have == 0 && f.left == 0 }

// message is where a stream is in its messages. Each has five bytes in front: whether it is compressed, and its length.
type message struct {
	prefix [5]byte
	got    int    // of prefix
	need   uint32 // bytes that did not arrive yet
}

// take reads on and says whether a message ended.
func (m *message) take(b []byte) (ended bool) {
	for len(b) > 0 {
		if m.need > 0 {
			n := min(uint64(m.need), uint64(len(b)))
			m.need -= uint32(n) //nolint:gosec // at most need
			b = b[n:]
		} else {
			n := copy(m.prefix[m.got:], b)
			b = b[n:]
			if m.got += n; m.got < len(m.prefix) {
				break
			}
			m.got, m.need = 0, binary.BigEndian.Uint32(m.prefix[1:])
		}
		ended = ended || m.need == 0
	}
	return ended
}

func (m *message) between() bool { return m.got == 0 && m.need == 0 }

// heldFor is the memory that gRPC has for the payload of a frame: buffers of a few sizes, and what is around them.
func heldFor(size int) int64 {
	const around, few, some, most = 128, 1 << 10, 4 << 10, 16 << 10
	switch {
	case size <= few:
		return int64(size) + around
	case size <= some:
		return some + around
	default:
		return most + around
	}
}
