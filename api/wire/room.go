package wire

import (
	"sync"

	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Request is a SessionRequest to be received into. Free takes back its memory, and with it all messages inside of it;
// texts may be kept. Its zero value is ready for use, again and again.
type Request struct {
	lockdv1.SessionRequest
	room *requestRoom
}

// Response is the same for a SessionResponse. Only Granted, Released and the messages of a batch are in the memory that
// is taken back; what they contain may be kept if it is another message.
type Response struct {
	lockdv1.SessionResponse
	room *responseRoom
}

var (
	requestRooms  = sync.Pool{New: func() any { return new(requestRoom) }}
	responseRooms = sync.Pool{New: func() any { return new(responseRoom) }}
)

// Free must be called when the message is not needed any more. It may be called again.
func (r *Request) Free() {
	if r.room != nil {
		r.Message = nil
		r.room.again()
		requestRooms.Put(r.room)
		r.room = nil
	}
}

// Free must be called when the message is not needed any more. It may be called again.
func (r *Response) Free() {
	if r.room != nil {
		r.Message = nil
		r.room.Again()
		responseRooms.Put(r.room)
		r.room = nil
	}
}

// chunk is how many values of a slab are allocated together at most.
const chunk = 64

// slab makes values of a kind, twice as many together each time.
type slab[T any] struct {
	all  []T
	used int
}

func (s *slab[T]) next() *T {
	if s.used == len(s.all) {
		s.all, s.used = make([]T, min(max(1, 2*s.used), chunk)), 0
	}
	s.used++
	return &s.all[s.used-1]
}

// again takes all values back.
func (s *slab[T]) again() {
	clear(s.all[:s.used])
	s.used = 0
}

// messages are those of a batch.
type messages[M any, P interface {
	*M
	proto.Message
}] struct {
	encoded [][]byte
	all     []M
	batch   []P // each is at its place in all
	used    int
}

// empty has so many messages, that are empty.
func (m *messages[M, P]) empty(n int) []P {
	if m.used = n; n > len(m.all) {
		m.all, m.batch = make([]M, n), make([]P, n)
		for i := range m.all {
			m.batch[i] = &m.all[i]
		}
	}
	return m.batch[:n:n]
}

// read reads the messages of a batch, with a function for one of them. Package proto reads what that does not.
func (m *messages[M, P]) read(f *fields, one func(f *fields, m P)) (batch []P) {
	m.encoded = m.encoded[:0]
	for f.number == 1 {
		m.encoded = append(m.encoded, f.bytes())
		f.number-- // there may be more of them
		f.next()
	}
	batch = m.empty(len(m.encoded))
	around := *f
	for i, entry := range m.encoded {
		f.read(entry)
		if one(f, batch[i]); !f.over() && proto.Unmarshal(entry, batch[i]) != nil {
			around.odd = true
			break
		}
	}
	*f = around
	return batch
}

// again takes all messages back. What a large batch took is let go.
func (m *messages[M, P]) again() {
	if len(m.all) > chunk {
		*m = messages[M, P]{}
		return
	}
	clear(m.all[:m.used])
	clear(m.encoded)
	m.encoded, m.used = m.encoded[:0], 0
}
