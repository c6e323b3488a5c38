package inbound

import (
	"container/list"
	"time"
)

// callBytes is about the memory of a call before its message is there, metadata included.
const callBytes = 16 << 10

// stream is a call that is open.
type stream struct {
	id   uint32
	conn *Conn

	// Guarded by Conn.mu.
	message  message
	spoke    bool  // a message of it has arrived
	answered bool  // we began an answer
	bytes    int64 // memory held for the message that arrives
	touched  bool  // by what was read last
	counted  bool  // in its scopes

	// Guarded by Intake.mu.
	since  time.Time // when it was first seen to wait for the rest of a message; zero if it does not
	held   int64     // counted in its scopes
	leaves bool      // its call is to end
	waits  [scopes]*list.Element
}

func (s *stream) arrives() bool { return !s.spoke || !s.message.between() }

// beginLocked is for a frame of the client whose header is there.
func (c *Conn) beginLocked() {
	f := &c.in
	c.owe(costOf(&f.head))
	switch f.kind {
	case frameData:
		c.beginDataLocked()
	case frameHeaders:
		c.headers = f.flags&flagEndHeaders == 0
		c.callLocked(f.stream, f.flags&flagEndStream != 0)
	case frameContinuation:
		c.headers = f.flags&flagEndHeaders == 0
	case frameReset:
		c.refuseLocked(c.streams[f.stream])
	}
	if f.left == 0 {
		c.endLocked()
	}
}

func (c *Conn) beginDataLocked() {
	if c.data = c.streams[c.in.stream]; c.data != nil {
		c.data.bytes += heldFor(c.in.size)
		c.touchLocked(c.data)
	}
	c.padded, c.padding, c.ended = c.in.flags&flagPadded != 0, 0, false
}

// callLocked is for the headers of a new call.
func (c *Conn) callLocked(id uint32, complete bool) {
	if c.streams[id] != nil {
		return // gRPC ends the connection
	}
	s := &stream{id: id, conn: c, spoke: complete}
	c.streams[id], c.called = s, true
	if !complete {
		s.bytes = callBytes
		c.touchLocked(s)
	}
}

// payloadLocked is for a part of the payload of the frame at hand.
func (c *Conn) payloadLocked(b []byte) {
	if s := c.data; s != nil && c.in.kind == frameData {
		if c.padded {
			c.padded, c.padding, b = false, int(b[0]), b[1:]
		}
		if most := c.in.left + len(b) - c.padding; len(b) > most {
			b = b[:max(0, most)]
		}
		if s.message.take(b) {
			s.spoke, c.ended = true, true
			s.bytes = heldFor(c.in.size)
		}
	}
	if c.in.left == 0 {
		c.endLocked()
	}
}

// endLocked is for the end of a frame.
func (c *Conn) endLocked() {
	if c.in.kind != frameData {
		return
	}
	s := c.data
	c.data = nil
	if !c.ended && c.in.size < freeBytes {
		c.owe(otherCost.frame)
	}
	switch {
	case s == nil:
	case c.in.flags&flagEndStream != 0: // nothing more comes, and gRPC hears that
		s.spoke, s.message, s.bytes = true, message{}, 0
	case !s.arrives():
		s.bytes = 0
	}
}

func (c *Conn) touchLocked(s *stream) {
	if !s.touched {
		s.touched = true
		c.touched = append(c.touched, s)
	}
}

// dropLocked forgets a call that has ended.
func (c *Conn) dropLocked(s *stream) {
	delete(c.streams, s.id)
	if c.data == s {
		c.data = nil
	}
	s.spoke, s.message, s.bytes = true, message{}, 0
	if s.counted && !s.touched {
		c.settleLocked(s)
	}
}

// refuseLocked is for a call that is reset by its client, refused, or not understood, if it is open.
func (c *Conn) refuseLocked(s *stream) {
	if s != nil {
		c.owe(refusedCost.frame)
		c.dropLocked(s)
	}
}

// settleLocked has a stream counted if it waits for the rest of a message, and forgotten if it does so no longer. It
// returns connections that are to end calls. It locks Intake.mu inside Conn.mu.
func (c *Conn) settleLocked(s *stream) []woken {
	c.intake.mu.Lock()
	defer c.intake.mu.Unlock()
	if s.counted = s.arrives(); s.counted {
		return c.intake.countLocked(s, s.bytes)
	}
	c.intake.forgetStreamLocked(s)
	return nil
}

// answerLocked is for a frame of ours whose header is there.
func (c *Conn) answerLocked(f *head) {
	s := c.streams[f.stream]
	if s == nil {
		return
	}
	switch {
	case f.kind == frameReset, f.kind == frameHeaders && f.flags&flagEndStream != 0 && !s.answered:
		c.refuseLocked(s)
	case f.kind == frameHeaders || f.kind == frameData:
		if s.answered = true; f.flags&flagEndStream != 0 {
			c.dropLocked(s)
		}
	}
}
