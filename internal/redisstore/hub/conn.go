package hub

import (
	"context"
	"errors"
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// maxSubscribe bounds how many channels one command names.
	maxSubscribe = 500
	// maxRetries bounds how many channels are subscribed again at once: each refusal is looked up among all.
	maxRetries = 100
	// firstPause and maxPause bound the time between attempts to get the connection back.
	firstPause = 50 * time.Millisecond
	maxPause   = 20 * firstPause
	// Invalid is the channel where Redis tells which tracked keys changed.
	Invalid = "__redis__:invalidate"
	// flushed is the error that go-redis returns for the message on Invalid without keys, which says that all may have
	// changed.
	flushed = "unsupported pubsub message payload: <nil>"
)

// write does what callers want: it greets listeners, subscribes and unsubscribes. It also sends a PING now and then, so
// that a silent connection can be told from a dead one.
func (h *Hub) write() {
	beat := time.NewTicker(h.Patience)
	defer beat.Stop()
	pause := firstPause
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-beat.C:
			if h.reading {
				_ = h.conn.Ping(h.ctx, h.last()) // the reader notices a dead connection
			}
			h.retry()
			continue
		case <-h.wake:
		}
		p := h.plan()
		for _, l := range p.greet {
			h.greet(l)
		}
		h.ask(p.ask)
		if err := h.send(p); err != nil {
			h.mu.Lock()
			h.unsent = append(h.unsent, p.subscribe...) // go-redis may have a new connection by now, without them
			h.mu.Unlock()
			h.pause(pause)
			pause = min(2*pause, maxPause)
			h.poke()
			continue
		}
		pause = firstPause
	}
}

// send changes the subscriptions of the connection, and makes the connection if there is none. It starts the reader
// with the first subscription: before that there is nothing to hear.
func (h *Hub) send(p plan) error {
	h.unsubscribe(p.unsubscribe)
	err := h.subscribe(p.subscribe)
	if len(p.subscribe) > 0 && !h.reading {
		h.reading = true
		h.wg.Go(h.read)
	}
	return err
}

func (h *Hub) subscribe(ts []*topic) error {
	for channels, sharded := range h.lumps(ts) {
		do := h.conn.Subscribe
		if sharded {
			do = h.conn.SSubscribe
		}
		if err := do(h.ctx, channels...); err != nil {
			return err
		}
	}
	return nil
}

// unsubscribe tells go-redis of all topics even if the connection is gone: go-redis subscribes its next connection only
// to the others. After the first failure it keeps go-redis from trying a new connection for each topic.
func (h *Hub) unsubscribe(ts []*topic) {
	over, cancel := context.WithCancel(h.ctx) // with it go-redis uses a connection but makes none
	cancel()
	broken := false
	for channels, sharded := range h.lumps(ts) {
		do := h.conn.Unsubscribe
		if sharded {
			do = h.conn.SUnsubscribe
		}
		ctx := h.ctx
		if broken {
			ctx = over
		}
		if err := do(ctx, channels...); err != nil {
			broken = true
		}
	}
}

// lumps are the channels of topics, cut into those of one command each. A channel with a slot is alone, because all
// channels of a command must be in one slot.
func (h *Hub) lumps(ts []*topic) iter.Seq2[[]string, bool] {
	return func(yield func(channels []string, sharded bool) bool) {
		channels := make([]string, 0, len(ts))
		for _, t := range ts {
			if !h.sharded(t) {
				channels = append(channels, t.channel)
			} else if !yield([]string{t.channel}, true) {
				return
			}
		}
		for some := range slices.Chunk(channels, maxSubscribe) {
			if !yield(some, false) {
				return
			}
		}
	}
}

// inThePast is a context whose deadline has passed: go-redis ends a connection that is asked for something with it.
func inThePast(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, time.Now().Add(-time.Second))
}

// read passes on what the connection hears, until the hub is closed. go-redis makes a new connection when one breaks
// and subscribes to everything again; the confirmations tell each listener that it may have missed something.
func (h *Hub) read() {
	pause, complained := time.Duration(0), false
	for h.ctx.Err() == nil {
		dials := h.dials.Load()
		msg, err := h.receive()
		if _, refused := errors.AsType[redis.Error](err); refused && dials == h.dials.Load() {
			if !complained {
				h.log.Warn("redis refuses a channel for released locks", zap.Error(err))
			}
			complained = true
			continue // the connection is as good as before
		}
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
		complained = false
		if pause == 0 {
			h.log.Warn("the connection for released locks was interrupted", zap.Error(err))
		}
		h.pause(pause)
		pause = min(max(2*pause, firstPause), maxPause)
	}
}

// receive waits for the next message. An error means that the connection was lost, or that Redis refused something.
func (h *Hub) receive() (any, error) {
	// Twice the time between two PINGs: a living connection has answered one by then.
	msg, err := h.conn.ReceiveTimeout(h.ctx, 2*h.Patience)
	if err == nil {
		return msg, nil
	}
	if strings.Contains(err.Error(), flushed) {
		return &redis.Message{Channel: Invalid}, nil
	}
	if _, refused := errors.AsType[redis.Error](err); refused {
		h.mu.Lock()
		h.lost = true
		h.mu.Unlock()
		if h.replaced() || redis.HasErrorPrefix(err, "CROSSSLOT") { // from subscriptions that go-redis made again by itself
			h.deaf(func(t *topic) bool { return t.live && h.sharded(t) })
			h.shardAgain()
		}
		if redis.HasErrorPrefix(err, "MOVED") { // the connection works; some channel has moved, Redis does not say which
			h.deaf(func(t *topic) bool { return !t.live && h.sharded(t) })
			return nil, nil //nolint:nilnil // nothing was heard
		}
		h.unanswered() // the refused command may have been a question
		return nil, err
	}
	h.Metrics.Interruptions.Inc()
	defer h.replaced() // the next connection is expected
	h.deaf(func(t *topic) bool { return t.live })
	h.unanswered()
	defer h.shardAgain()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		// go-redis keeps a connection after a timeout, because the message may still come. This ends it.
		past, cancel := inThePast(h.ctx)
		defer cancel()
		_, _ = h.conn.Receive(past)
	}
	return nil, err
}

// retry has some channels with slots subscribed again that Redis refused or ended: their slots may be back. Each is a
// command of its own.
func (h *Hub) retry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		h.lost = false
		h.againLocked(maxRetries)
	}
}

// shardAgain has all channels with slots subscribed again, one by one: go-redis would name them all in one command on
// its next connection, which a cluster refuses.
func (h *Hub) shardAgain() {
	if h.Sharded == nil {
		return
	}
	_ = h.conn.SUnsubscribe(h.ctx) // go-redis forgets them, whether or not Redis hears of it
	h.mu.Lock()
	defer h.mu.Unlock()
	h.againLocked(len(h.topics))
}

// againLocked has channels with slots subscribed that are not live, so many at most.
func (h *Hub) againLocked(most int) {
	waiting := make(map[*topic]bool, len(h.unsent))
	for _, t := range h.unsent {
		waiting[t] = true
	}
	for _, t := range h.topics {
		if t.live || waiting[t] || !h.sharded(t) {
			continue
		}
		if most--; most < 0 {
			h.lost = true // the others come next
			break
		}
		h.unsent = append(h.unsent, t)
	}
	h.poke()
}

func (h *Hub) dispatch(msg any) {
	switch m := msg.(type) {
	case *redis.Message:
		h.tell(m.Channel, Heard{Message: m.Payload, Keys: m.PayloadSlice})
	case *redis.Subscription:
		left := strings.HasSuffix(m.Kind, "unsubscribe")
		h.tell(m.Channel, Heard{Live: !left, Deaf: left})
	case *redis.Pong:
		if number, err := strconv.ParseUint(m.Payload, 10, 64); err == nil {
			h.answered(number)
		}
	}
}

// pause waits a little, or until the hub is closed.
func (h *Hub) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-h.ctx.Done():
	case <-time.After(d):
	}
}

// replaced says whether a connection was made since the reader asked last: the writer may have replaced it.
func (h *Hub) replaced() bool {
	was := h.seen
	h.seen = h.made.Load()
	return h.seen != was
}

func (h *Hub) sharded(t *topic) bool { return h.Sharded != nil && h.Sharded(t.channel) }
