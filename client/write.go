package client

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// maxBatch is how many requests go into one frame at most. With a few frames under way the client, lockd and Redis work
// side by side. With everything in one frame two of the three would always wait.
const maxBatch = 64

// frameBytes is how large a frame may be: 1 MiB if the server does not tell.
func (s *session) frameBytes() int { return int(cmp.Or(s.limits.Load().GetFrameBytes(), 1<<20)) }

// write sends what is queued, a heartbeat in each interval, and Goodbye at the end. Requests that come while a frame is
// being sent go into the next one: the busier the client, the fuller the frames. If nothing was heard for the session
// TTL, write ends the stream instead: new requests are for the next session.
func (st *stream) write() {
	for more := true; more; {
		beat := false
		select {
		case <-st.wake:
		case <-st.beat.C:
			st.beat.Reset(st.interval)
			beat = true
		case <-st.ctx.Done():
			return
		}
		more = !st.overdue() && st.flush(beat)
	}
}

// firstBeat is when the first heartbeat is sent: at a random moment of an interval. Clients that all came at once,
// after a restart, would else all need their renewals at the same moments. Tests replace it.
var firstBeat = func(interval time.Duration) time.Duration { return 1 + rand.N(interval) }

// hasteParts says when the next heartbeat is sent after a short validity: after interval / hasteParts.
const hasteParts = 4

// hastenLocked has the next heartbeat sent early. The answer to the last one told a short validity, because some lease
// was not renewed in time. The server tells one validity for all leases, and tries that renewal again: the next answer
// may tell a longer one.
func (st *stream) hastenLocked() {
	if !st.hasty {
		st.hasty = true
		st.beat.Reset(st.interval / hasteParts)
	}
}

// flush sends all there is, in as few frames as the server allows, and says whether more may follow. When sending fails
// read hears why.
func (st *stream) flush(beat bool) bool {
	// Callers that can run now add their requests first: a few fuller frames cost less than many small ones, and an
	// idle process loses nothing by it. What comes later wakes the writer again.
	runtime.Gosched()
	requests, last := st.take(beat)
	defer clear(requests) // what they belong to may be large
	for rest := requests; len(rest) > 0; {
		n, frame := st.fit(rest), rest[0]
		if n > 1 {
			frame = st.batch.of(rest[:n])
		}
		if st.rpc.Send(frame) != nil {
			return false
		}
		rest = rest[n:]
	}
	if last {
		_ = st.rpc.CloseSend()
	}
	return !last
}

// batch is a frame of several requests. It is used again once it was sent, unless gRPC's tracing formats it later.
type batch struct {
	frame lockdv1.SessionRequest
	arm   lockdv1.SessionRequest_Batch
	all   lockdv1.RequestBatch
}

func (b *batch) of(requests []*lockdv1.SessionRequest) *lockdv1.SessionRequest {
	if grpc.EnableTracing {
		b, requests = &batch{}, slices.Clone(requests)
	}
	b.all.Requests, b.arm.Batch, b.frame.Message = requests, &b.all, &b.arm
	return &b.frame
}

// take empties the queue and returns its requests, after a heartbeat if one is due. From here on they count as sent.
// last says that Goodbye is the last of them.
func (st *stream) take(beat bool) (requests []*lockdv1.SessionRequest, last bool) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	requests = st.frames[:0]
	if beat {
		st.hasty = false
		requests = append(requests, &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{
			Heartbeat: &lockdv1.Heartbeat{SentId: st.beats.next(s.client.now())},
		}})
	}
	if s.stream == st { // else what is queued is for another one
		for _, c := range s.queue {
			if !c.abandoned || c.seen || c.request.GetAcquire() == nil {
				c.sent = true
				requests = append(requests, c.request)
			}
		}
		clear(s.queue)
		s.queue = s.queue[:0]
		if last = s.leaving; last {
			requests = append(requests, &lockdv1.SessionRequest{
				Message: &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}},
			})
		}
	}
	st.frames = requests
	return requests, last
}

// fit says how many requests go into one frame: at least one. Half of the limit is used, the rest is for framing.
func (st *stream) fit(requests []*lockdv1.SessionRequest) int {
	left := st.session.frameBytes() / 2
	for n, r := range requests {
		left -= proto.Size(r) + 8
		if n > 0 && (left < 0 || n == maxBatch) {
			return n
		}
	}
	return len(requests)
}
