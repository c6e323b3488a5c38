package grpcapi

import (
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// maxRequests bounds the requests of a batch. A frame could hold hundreds of thousands of the smallest ones, and they stay in
// memory while the client does not read its answers.
const maxRequests = 1024

// turnSize is how many requests the session takes in one turn. The session's answers may fill the outbox by as many above
// what awaitRoom allows.
const turnSize = 64

// dispatch hands one message to the session. Whatever its content, the stream lives on, unless it cannot even be told
// which request is refused.
func (c *conn) dispatch(m *lockdv1.SessionRequest) {
	if err := marked(m); err != nil {
		if id := m.GetRequestId(); id != 0 {
			c.sess.Refuse(id, err)
		} else {
			c.sess.End(err)
		}
		return
	}
	c.heard = false
	if batch := m.GetBatch(); batch != nil {
		c.dispatchAll(batch.GetRequests())
	} else {
		c.request(m)
	}
	c.pass()
}

// dispatchAll hands the requests of a batch to the session.
func (c *conn) dispatchAll(batch []*lockdv1.SessionRequest) {
	if n := len(batch); n > maxRequests {
		c.sess.Hear()
		c.sess.End(&lock.InvalidError{
			Field: "batch", Reason: lock.ReasonMessage, Detail: fmt.Sprintf("%d requests, at most %d are allowed", n, maxRequests),
		})
		return
	}
	for _, r := range batch {
		if len(c.turn) == 0 {
			c.awaitRoom()
		}
		if r.GetBatch() != nil || r.GetOpen() != nil {
			c.refuse(r.GetRequestId(), &lock.InvalidError{
				Field: "batch", Reason: lock.ReasonMessage, Detail: "Open and batches are not allowed in a batch",
			})
			continue
		}
		c.request(r)
	}
}

// request hands one request to the session. Those that come in great numbers are collected, until pass.
func (c *conn) request(m *lockdv1.SessionRequest) {
	c.traceRequest(m)
	id := m.GetRequestId()
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		req, err := toAcquire(r.Acquire)
		c.collect(broker.Request{ID: id, Verb: broker.VerbAcquire, Acquire: req}, err)
	case *lockdv1.SessionRequest_Release:
		c.collect(broker.Request{ID: id, Verb: broker.VerbRelease, Release: toRelease(r.Release)}, nil)
	default:
		c.pass() // first, what came before
		c.rarely(id, m)
	}
}

// rarely hands a request to the session that has a turn of its own.
func (c *conn) rarely(id uint64, m *lockdv1.SessionRequest) {
	s := c.sess
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Open:
		s.Refuse(id, broker.ErrOpenTwice)
	case *lockdv1.SessionRequest_Heartbeat:
		s.Heartbeat(id, r.Heartbeat.GetSentId())
	case *lockdv1.SessionRequest_Goodbye:
		s.Goodbye()
	case *lockdv1.SessionRequest_Extend:
		req, err := toExtend(r.Extend)
		if err != nil {
			s.Refuse(id, err)
			return
		}
		s.Extend(id, req)
	case *lockdv1.SessionRequest_Cancel:
		s.Cancel(id, r.Cancel.GetTargetId())
	case *lockdv1.SessionRequest_Watch:
		s.Watch(id, r.Watch.GetName())
	case *lockdv1.SessionRequest_Unwatch:
		s.Unwatch(id, r.Unwatch.GetName())
	case *lockdv1.SessionRequest_Look:
		s.Look(id, r.Look.GetName())
	case *lockdv1.SessionRequest_ListHolds:
		s.ListHolds(id, broker.HoldsRequest{
			Prefix: r.ListHolds.GetPrefix(), After: r.ListHolds.GetPageToken(), Size: pageSize(r.ListHolds.GetPageSize()),
		})
	case *lockdv1.SessionRequest_SetLimit:
		s.SetLimit(id, broker.LimitRequest{Name: r.SetLimit.GetName(), Limit: r.SetLimit.GetLimit()})
	default: // an arm that a newer client knows
		s.Refuse(id, lock.ErrUnsupported)
	}
}

// collect adds a request to the next turn, as refused if it could not be read.
func (c *conn) collect(r broker.Request, err error) {
	if err != nil {
		r.Verb, r.Err = broker.VerbRefuse, err
	}
	c.turn = append(c.turn, r)
	if len(c.turn) == turnSize {
		c.pass()
	}
}

func (c *conn) refuse(id uint64, err error) { c.collect(broker.Request{ID: id}, err) }

// pass hands what was collected to the session. Only the first time it counts as a sign of life: what comes later may have
// waited here.
func (c *conn) pass() {
	switch {
	case !c.heard:
		c.heard = true
		c.sess.Hear(c.turn...)
	case len(c.turn) > 0:
		c.sess.Requests(c.turn)
	}
	clear(c.turn)
	c.turn = c.turn[:0]
}
