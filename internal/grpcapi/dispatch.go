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
	c.sess.Hear()
	batch := m.GetBatch()
	if batch == nil {
		c.request(m)
		return
	}
	if n := len(batch.GetRequests()); n > maxRequests {
		c.sess.End(&lock.InvalidError{
			Field: "batch", Reason: lock.ReasonMessage, Detail: fmt.Sprintf("%d requests, at most %d are allowed", n, maxRequests),
		})
		return
	}
	for _, r := range batch.GetRequests() {
		c.awaitRoom()
		if r.GetBatch() != nil || r.GetOpen() != nil {
			c.sess.Refuse(r.GetRequestId(), &lock.InvalidError{
				Field: "batch", Reason: lock.ReasonMessage, Detail: "Open and batches are not allowed in a batch",
			})
			continue
		}
		c.request(r)
	}
}

// request hands one request to the session.
func (c *conn) request(m *lockdv1.SessionRequest) {
	s, id := c.sess, m.GetRequestId()
	c.traceRequest(m)
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Open:
		s.Refuse(id, broker.ErrOpenTwice)
	case *lockdv1.SessionRequest_Heartbeat:
		s.Heartbeat(id, r.Heartbeat.GetSentId())
	case *lockdv1.SessionRequest_Goodbye:
		s.Goodbye()
	case *lockdv1.SessionRequest_Acquire:
		convert(s, id, r.Acquire, toAcquire, s.Acquire)
	case *lockdv1.SessionRequest_Release:
		convert(s, id, r.Release, toRelease, s.ReleasePermits)
	case *lockdv1.SessionRequest_Extend:
		convert(s, id, r.Extend, toExtend, s.Extend)
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

// convert reads a request's content and passes it on, or refuses it.
func convert[P, R any](s *broker.Session, id uint64, p P, read func(P) (R, error), pass func(uint64, R)) {
	r, err := read(p)
	if err != nil {
		s.Refuse(id, err)
		return
	}
	pass(id, r)
}
