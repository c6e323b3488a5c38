package grpcapi

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	// flushTime is how long an ended session waits for its client to read the last messages.
	flushTime = time.Second
	// lingerTime is how long a writer with nothing to write stays. An idle session has none, which saves its stack.
	lingerTime = flushTime / 10
)

// serve has a writer send what the outbox has until the session or the stream ends.
func (c *conn) serve() error {
	writing := false
	for {
		wake := c.sess.Outbox().Wake()
		if writing {
			wake = nil
		}
		select {
		case <-wake:
			writing = true
			c.workers.Go(func() { c.wrote <- c.write() })
		case err := <-c.wrote:
			writing = false
			if err != nil {
				c.broke(err)
				return err
			}
		case err := <-c.closed:
			if errors.Is(err, errNoGoodbye) {
				return nil // the client may still read, but there is nothing to say
			}
			if err != nil {
				return err
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
	cause := c.sess.Cause()
	if errors.Is(cause, errNoGoodbye) {
		return nil
	}
	c.auditEnd(cause)
	var last *lockdv1.SessionResponse
	if cause != nil {
		last = &lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Closing{
			Closing: &lockdv1.Closing{Failure: toFailure(cause)},
		}}
	}
	c.last <- last
	for len(c.last) > 0 || writing { // a writer that was just ending did not take it
		if !writing {
			c.workers.Go(func() { c.wrote <- c.write() })
		}
		select {
		case failed := <-c.wrote:
			if writing = false; failed != nil {
				return cause
			}
		case <-timer.C:
			return cause
		}
	}
	return cause
}

// write sends what the outbox has, until nothing came for lingerTime or the stream is over. If there is a last message,
// it sends that last.
func (c *conn) write() error {
	idle := time.NewTimer(lingerTime)
	defer idle.Stop()
	for {
		if err := c.writeAll(); err != nil {
			return err
		}
		idle.Reset(lingerTime)
		select {
		case <-c.sess.Outbox().Wake():
			runtime.Gosched() // the answers that come with this one go into the same frame
		case <-idle.C:
			return nil
		case last, ok := <-c.last:
			if !ok {
				return nil
			}
			err := c.writeAll()
			if err == nil && last != nil {
				err = c.stream.Send(last)
			}
			return err
		}
	}
}

// writeAll converts and sends some events at a time, so that little memory is held for a client that does not read, and
// remaining times are those of the moment.
func (c *conn) writeAll() error {
	for {
		events := c.sess.Outbox().TakeSome(batchSize, batchBytes)
		if len(events) == 0 {
			return nil
		}
		c.hideFrom(events)
		if err := sendAll(events, c.batches, c.stream.Send); err != nil {
			return err
		}
	}
}

// frames is memory for the answers of one frame at a time. Streams that have nothing to send keep none.
var frames = sync.Pool{New: func() any { return new([]answer) }}

// sendAll translates events and sends them, in a batch if the client understands it.
func sendAll(events []session.Event, batches bool, send func(*lockdv1.SessionResponse) error) error {
	frame := frames.Get().(*[]answer)
	defer frames.Put(frame)
	answers := slices.Grow(*frame, len(events))[:len(events)]
	defer clear(answers)
	*frame = answers[:0]
	for i, e := range events {
		answers[i].set(e)
	}
	if batches && len(answers) > 1 {
		batch := &lockdv1.ResponseBatch{Responses: make([]*lockdv1.SessionResponse, len(answers))}
		for i := range answers {
			batch.Responses[i] = &answers[i].SessionResponse
		}
		return send(&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Batch{Batch: batch}})
	}
	for i := range answers {
		if err := send(&answers[i].SessionResponse); err != nil {
			return err
		}
	}
	return nil
}
