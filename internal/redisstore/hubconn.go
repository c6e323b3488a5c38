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
	// maxSubscribe bounds how many subjects one command names.
	maxSubscribe = 500
	// firstPause and maxPause bound the time between attempts to get the connection back.
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
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
	_ = inLumps(p.unsubscribe, func(channels, patterns []string) error {
		return errors.Join(
			unlessNone(h.ctx, h.conn.Unsubscribe, channels), unlessNone(h.ctx, h.conn.PUnsubscribe, patterns))
	})
	return inLumps(p.subscribe, func(channels, patterns []string) error {
		err := errors.Join(
			unlessNone(h.ctx, h.conn.Subscribe, channels), unlessNone(h.ctx, h.conn.PSubscribe, patterns))
		h.begin()
		return err
	})
}

// inLumps does something with the names of topics, not too many at once, until it fails.
func inLumps(ts []*topic, do func(channels, patterns []string) error) error {
	for some := range slices.Chunk(ts, maxSubscribe) {
		var channels, patterns []string
		for _, t := range some {
			if t.pattern {
				patterns = append(patterns, t.name)
			} else {
				channels = append(channels, t.name)
			}
		}
		if err := do(channels, patterns); err != nil {
			return err
		}
	}
	return nil
}

// unlessNone gives names to a command, for which none would mean all.
func unlessNone(ctx context.Context, command func(context.Context, ...string) error, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return command(ctx, names...)
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
		sub := subject{name: m.Channel}
		if m.Pattern != "" {
			sub = subject{name: m.Pattern, pattern: true}
		}
		h.tell(sub, heard{channel: m.Channel, message: m.Payload})
	case *redis.Subscription:
		sub := subject{name: m.Channel, pattern: strings.HasPrefix(m.Kind, "p")}
		if strings.HasSuffix(m.Kind, "unsubscribe") {
			h.deaf(sub)
		} else {
			h.tell(sub, heard{live: true})
		}
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
