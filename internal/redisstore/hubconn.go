package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// maxSubscribe bounds how many channels one command names.
	maxSubscribe = 500
	// firstPause and maxPause bound the time between attempts to get the connection back.
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
	// invalidChannel is where Redis tells which tracked keys changed.
	invalidChannel = "__redis__:invalidate"
	// flushed is what go-redis makes of the message there that has no keys: all may have changed.
	flushed = "unsupported pubsub message payload: <nil>"
)

// write sends what callers want: greetings, subscriptions and their end; and a PING now and then, so that a silent
// connection can be told from a dead one.
func (h *hub) write() {
	beat := time.NewTicker(h.patient)
	defer beat.Stop()
	sweep := time.NewTicker(max(h.linger/4, time.Millisecond))
	defer sweep.Stop()
	pause := firstPause
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-beat.C:
			h.ping()
			continue
		case <-sweep.C:
		case <-h.wake:
		}
		p := h.plan(time.Now())
		for _, l := range p.greet {
			l.hear(heard{live: true})
		}
		if err := h.send(p); err != nil {
			h.again(p.subscribe) // go-redis may have a new connection by now, without them
			h.pause(pause)
			pause = min(2*pause, maxPause)
			h.poke()
			continue
		}
		pause = firstPause
	}
}

// send changes the subscriptions of the connection, and makes the connection if there is none.
func (h *hub) send(p plan) error {
	// If this fails the connection is gone, and the next one is made without them.
	_ = inLumps(p.unsubscribe, func(channels []string) error { return h.conn.Unsubscribe(h.ctx, channels...) })
	return inLumps(p.subscribe, func(channels []string) error {
		err := h.conn.Subscribe(h.ctx, channels...)
		h.begin()
		return err
	})
}

// inLumps does something with the channels of topics, not too many at once, until it fails.
func inLumps(ts []*topic, do func(channels []string) error) error {
	for some := range slices.Chunk(ts, maxSubscribe) {
		channels := make([]string, len(some))
		for i, t := range some {
			channels[i] = t.channel
		}
		if err := do(channels); err != nil {
			return err
		}
	}
	return nil
}

// begin lets the reader begin: before the first channel there is nothing to hear. Only the writer calls it.
func (h *hub) begin() {
	select {
	case <-h.begun:
	default:
		close(h.begun)
	}
}

// ping asks for a sign of life.
func (h *hub) ping() {
	select {
	case <-h.begun:
		_ = h.conn.Ping(h.ctx) // a dead connection is the reader's business
	default:
	}
}

// read passes on what the connection hears, until the hub is closed. go-redis makes a new connection when one breaks
// and subscribes to everything again; the confirmations tell each listener that it may have missed something.
func (h *hub) read() {
	select {
	case <-h.begun:
	case <-h.ctx.Done():
		return
	}
	pause := time.Duration(0)
	for h.ctx.Err() == nil {
		msg, err := h.receive()
		if err == nil {
			if pause > 0 {
				h.log.Info("redis is heard again")
			}
			pause = 0
			h.dispatch(msg)
			continue
		}
		if h.ctx.Err() != nil {
			return
		}
		if pause == 0 {
			h.log.Warn("the connection for released locks was interrupted", zap.Error(err))
		}
		h.pause(pause)
		pause = min(max(2*pause, firstPause), maxPause)
	}
}

// receive waits for the next message. An error means that the connection was lost, or that Redis refused something.
func (h *hub) receive() (any, error) {
	// Twice the time between two PINGs: a living connection has answered one by then.
	msg, err := h.conn.ReceiveTimeout(h.ctx, 2*h.patient)
	if err == nil {
		return msg, nil
	}
	if strings.Contains(err.Error(), flushed) {
		return &redis.Message{Channel: invalidChannel}, nil
	}
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil, err
	}
	h.metrics.resubscribed.Inc()
	h.allDeaf()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		// go-redis keeps a connection whose time is up, as the message may yet come; a deadline in ctx ends it.
		past, cancel := context.WithDeadline(h.ctx, time.Now().Add(-time.Second))
		defer cancel()
		_, _ = h.conn.Receive(past)
	}
	return nil, err
}

// dispatch passes one message on.
func (h *hub) dispatch(msg any) {
	switch m := msg.(type) {
	case *redis.Message:
		h.tell(m.Channel, heard{message: m.Payload, keys: m.PayloadSlice})
	case *redis.Subscription:
		left := strings.HasSuffix(m.Kind, "unsubscribe")
		h.tell(m.Channel, heard{live: !left, deaf: left})
	}
}

// pause waits a little, or until the hub is closed.
func (h *hub) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-h.ctx.Done():
	case <-time.After(d):
	}
}
