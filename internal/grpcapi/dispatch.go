package grpcapi

import (
	"fmt"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// pieceSize is how many requests the session takes at once. Their answers may exceed the outbox's bound by as many, as
// awaitReading waits only before them.
const pieceSize = 64

// pieces are buffers for pieceSize requests. A stream has one only while it handles a message.
var pieces = sync.Pool{New: func() any { return new([pieceSize]request.Request) }}

// dispatch hands one message to the session. It refuses a bad message, or ends the session if the message has no
// request id to refuse.
func (c *conn) dispatch(m *lockdv1.SessionRequest) {
	c.sess.Hear() // before the waits below: the client lives
	if err := marked(m); err != nil {
		if id := m.GetRequestId(); id != 0 {
			c.sess.Refuse(id, err)
		} else {
			c.sess.End(err)
		}
		return
	}
	if batch := m.GetBatch(); batch != nil {
		c.dispatchAll(batch.GetRequests())
	} else {
		c.request(m)
	}
	c.pass()
}

// dispatchAll hands the requests of a batch to the session, and ends the session if there are too many.
func (c *conn) dispatchAll(batch []*lockdv1.SessionRequest) {
	if n := len(batch); n > limits.Requests {
		c.sess.End(lock.Invalid("batch", lock.ReasonMessage,
			fmt.Sprintf("%d requests, at most %d are allowed", n, limits.Requests)))
		return
	}
	if len(batch) == 0 {
		c.sess.Spend(limits.Sign)
	}
	for i, r := range batch {
		if len(c.piece) == pieceSize {
			c.pass()
		}
		if len(c.piece) == 0 {
			c.settle()
			c.awaitReading()
		}
		if r.GetBatch() != nil || r.GetOpen() != nil {
			next := c.next(r.GetRequestId(), request.VerbRefuse)
			next.Err = lock.Invalid(fmt.Sprintf("batch.requests[%d]", i), lock.ReasonMessage,
				"Open and batches are not allowed in a batch")
			continue
		}
		c.request(r)
	}
}

// request hands one request to the session. Requests to acquire, release and extend, each of which costs the store a
// call, are collected until pass.
func (c *conn) request(m *lockdv1.SessionRequest) {
	c.traceRequest(m)
	id := m.GetRequestId()
	if err := c.mayRequest(m); err != nil {
		c.next(id, request.VerbRefuse).Err = err
		return
	}
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		next := c.next(id, request.VerbAcquire)
		if err := setAcquire(&next.Acquire, r.Acquire); err != nil {
			next.Verb, next.Err = request.VerbRefuse, err
		}
	case *lockdv1.SessionRequest_Release:
		c.next(id, request.VerbRelease).Release = request.Release{Hold: toHold(r.Release), Keep: r.Release.GetKeep()}
	case *lockdv1.SessionRequest_Extend:
		next := c.next(id, request.VerbExtend)
		next.Extend = request.Extend{Hold: toHold(r.Extend), MayShorten: r.Extend.GetMayShorten()}
		if next.Extend.Lease, next.Err = toDuration("lease", r.Extend.GetLease()); next.Err != nil {
			next.Verb = request.VerbRefuse
		}
	default:
		c.pass() // what came before goes first
		c.alone(id, m)
	}
}

// alone hands a request to the session at once, not in a piece.
func (c *conn) alone(id uint64, m *lockdv1.SessionRequest) {
	s := c.sess
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Open:
		s.Refuse(id, session.ErrOpenTwice)
	case *lockdv1.SessionRequest_Heartbeat:
		c.beat = sentAt(time.Now(), c.beat, s.TTL())
		s.Heartbeat(id, r.Heartbeat.GetSentId())
	case *lockdv1.SessionRequest_Goodbye:
		c.parted = true
		s.Goodbye()
	case *lockdv1.SessionRequest_Cancel:
		s.Cancel(id, r.Cancel.GetTargetId())
	case *lockdv1.SessionRequest_Watch:
		s.Watch(id, r.Watch.GetName())
	case *lockdv1.SessionRequest_Unwatch:
		s.Unwatch(id, r.Unwatch.GetName())
	case *lockdv1.SessionRequest_Look:
		s.Look(id, r.Look.GetName())
	case *lockdv1.SessionRequest_ListHolds:
		s.ListHolds(id, session.Page{
			Prefix: r.ListHolds.GetPrefix(), After: r.ListHolds.GetPageToken(), Size: pageSize(r.ListHolds.GetPageSize()),
		})
	case *lockdv1.SessionRequest_SetLimit:
		s.SetLimit(id, request.SetLimit{
			Tenant: s.Client().Tenant, Name: r.SetLimit.GetName(), Limit: r.SetLimit.GetLimit(),
		})
	default: // an arm that a newer client knows
		s.Refuse(id, lock.ErrUnsupported)
	}
}

// next adds a request to the piece, for the caller to fill in.
func (c *conn) next(id uint64, verb request.Verb) *request.Request {
	if c.buffer == nil {
		c.buffer = pieces.Get().(*[pieceSize]request.Request)
		c.piece = c.buffer[:0]
	}
	c.piece = append(c.piece, request.Request{ID: id, Verb: verb})
	return &c.piece[len(c.piece)-1]
}

// pass hands the collected requests to the session. They may have to wait at the gate.
func (c *conn) pass() {
	if share := c.sess.Share(); len(c.piece) > 0 && c.cfg.Gate.Stops(share, len(c.piece)) {
		patience := patience(time.Now(), c.beat, c.sess.TTL())
		c.cfg.Gate.Enter(share, len(c.piece), patience, c.stream.Context().Done())
	}
	c.sess.Requests(c.piece)
	c.forget()
}

// patience is for how long a piece may wait at the gate.
func patience(now, beat time.Time, ttl time.Duration) time.Duration {
	return min(beat.Add(ttl*11/30).Sub(now), mostPatience)
}

// sentAt estimates when a heartbeat that is read now was sent: one heartbeat interval after the one before, but not in
// the future, nor more than ttl ago.
func sentAt(now, before time.Time, ttl time.Duration) time.Time {
	sent := before.Add(ttl / 3)
	if sent.After(now) {
		return now
	}
	if oldest := now.Add(-ttl); sent.Before(oldest) {
		return oldest
	}
	return sent
}

func (c *conn) forget() {
	if c.buffer != nil {
		clear(c.piece)
		pieces.Put(c.buffer)
		c.buffer, c.piece = nil, nil
	}
}
