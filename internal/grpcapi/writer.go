package grpcapi

import (
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// lingerTime is how long a writer stays that has nothing to write, or up to twice as long, if the one before it ended as
// short a time ago. An idle session does without its stack.
const lingerTime = time.Second

// flushTime is how long an ended session waits for its client to read the last messages.
const flushTime = time.Second

// serve has a writer send what the outbox has until the session or the stream ends.
func (c *conn) serve() error {
	writing := false
	var ended time.Time // of the last writer
	for {
		wake := c.sess.Outbox().Wake()
		if writing {
			wake = nil
		}
		select {
		case <-wake:
			writing = true
			stay := time.Since(ended) < lingerTime
			c.workers.Go(func() { c.wrote <- c.write(stay) })
		case err := <-c.wrote:
			writing, ended = false, time.Now()
			if err != nil {
				c.sess.End(err)
			}
		case err := <-c.closed:
			if err != nil {
				return toStatus(err)
			}
			c.closed = nil
		case <-c.sess.Done():
			return c.finish(writing)
		}
	}
}

// finish has the writer send what is left and say why the stream ends, if the client reads it in time.
func (c *conn) finish(writing bool) error {
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	err := toStatus(c.sess.Cause())
	var last *lockdv1.SessionResponse
	if err != nil {
		last = &lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Closing{
			Closing: &lockdv1.Closing{Status: status.Convert(err).Proto()},
		}}
	}
	c.last <- last
	for len(c.last) > 0 || writing { // a writer that was just ending did not take it
		if !writing {
			c.workers.Go(func() { c.wrote <- c.write(true) })
		}
		select {
		case failed := <-c.wrote:
			if writing = false; failed != nil {
				return err
			}
		case <-timer.C:
			return err
		}
	}
	return err
}

// write sends what the outbox has. If it is to stay, it goes on until there was nothing for a while, or it is told what
// comes last, or the stream is over.
func (c *conn) write(stay bool) error {
	err := c.writeAll()
	if err != nil || !stay {
		return err
	}
	for round, busy := c.rounds.end(), true; err == nil && stay; {
		select {
		case <-c.sess.Outbox().Wake():
			runtime.Gosched() // the answers that come with this one go into the same frame
			err, busy = c.writeAll(), true
		case <-round:
			stay = busy
			round, busy = c.rounds.end(), false
		case last, ok := <-c.last:
			if ok {
				err = c.writeLast(last)
			}
			return err
		}
	}
	return err
}

// writeLast sends what is left and a last message, if there is one.
func (c *conn) writeLast(last *lockdv1.SessionResponse) error {
	err := c.writeAll()
	if err == nil && last != nil {
		err = c.stream.Send(last)
	}
	return err
}

// writeAll converts and sends some events at a time: what the client does not read stays small, and remaining times are
// told as they are when a message is sent.
func (c *conn) writeAll() error {
	for {
		events := c.sess.Outbox().TakeSome(batchSize, batchBytes)
		if len(events) == 0 {
			return nil
		}
		for _, m := range c.frames(events) {
			if err := c.stream.Send(m); err != nil {
				return err
			}
		}
	}
}

// frames are the messages for some events: a batch if the client understands it.
func (c *conn) frames(events []broker.Event) []*lockdv1.SessionResponse {
	if len(events) == 1 {
		return []*lockdv1.SessionResponse{fromEvent(events[0])}
	}
	messages := fromEvents(events)
	if !c.batches {
		return messages
	}
	return []*lockdv1.SessionResponse{{Message: &lockdv1.SessionResponse_Batch{
		Batch: &lockdv1.ResponseBatch{Responses: messages},
	}}}
}

// rounds tell writers that some time has passed, all with one timer.
type rounds struct {
	mu  sync.Mutex // guards the field below
	now chan struct{}
}

// end is closed when the round ends that is going on now.
func (r *rounds) end() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		r.now = make(chan struct{})
		time.AfterFunc(lingerTime, r.over)
	}
	return r.now
}

func (r *rounds) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.now)
	r.now = nil
}
