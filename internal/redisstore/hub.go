package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// hub hears all channels over one connection and passes on what it hears.
//
// Callers only change what is wanted; two goroutines do the rest (hubconn.go). A subject is subscribed while somebody
// listens to it and for a while longer, as busy names are listened to again and again.
type hub struct {
	log     *zap.Logger
	metrics *metrics
	linger  time.Duration
	patient time.Duration // Config.HearTimeout
	conn    *redis.PubSub

	wake   chan struct{} // size 1: there is something to do for the writer
	begun  chan struct{} // closed when the first subject was asked for
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the fields below and all topics
	topics  map[subject]*topic
	unsent  []*topic    // to be subscribed
	ungreet []*listener // joined a topic that was live already
	idle    []*topic    // without listeners when they were put here, oldest first
}

// subject is what one can subscribe to: a channel, or all channels that match a pattern.
type subject struct {
	name    string
	pattern bool
}

// heard is what comes from a subject: it was confirmed, once or again, or a message in a channel.
type heard struct {
	live             bool
	channel, message string
}

// topic is a subject that is subscribed.
type topic struct {
	subject
	listeners map[*listener]struct{}
	live      bool      // Redis confirmed the subscription on the present connection
	gone      bool      // unsubscribed, and replaced if the subject is in hub.topics again
	queued    bool      // in hub.idle
	idleSince time.Time // when the last listener left
}

// listener hears one topic.
type listener struct {
	topic *topic
	hear  func(heard)
}

func newHub(client *redis.Client, cfg Config, log *zap.Logger, m *metrics) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{
		log: log, metrics: m, linger: cfg.Linger, patient: cfg.HearTimeout, conn: client.Subscribe(ctx),
		wake: make(chan struct{}, 1), begun: make(chan struct{}), ctx: ctx, cancel: cancel,
		topics: make(map[subject]*topic),
	}
	h.wg.Go(h.write)
	h.wg.Go(h.read)
	return h
}

// close ends the connection and waits for both goroutines.
func (h *hub) close() {
	h.cancel()
	_ = h.conn.Close() // it can only be closed already
	h.wg.Wait()
}

// listen joins a subject. It never waits for the network.
func (h *hub) listen(sub subject, hear func(heard)) (stop func()) {
	l := &listener{hear: hear}
	h.mu.Lock()
	t := h.topics[sub]
	if t == nil {
		t = &topic{subject: sub, listeners: make(map[*listener]struct{})}
		h.topics[sub] = t
		h.metrics.subscriptions.Set(float64(len(h.topics)))
		h.unsent = append(h.unsent, t)
	}
	l.topic = t
	t.listeners[l] = struct{}{}
	if t.live {
		h.ungreet = append(h.ungreet, l)
	}
	h.mu.Unlock()
	h.poke()
	return func() { h.leave(l) }
}

// allLive says whether Redis confirmed all of some subjects on the present connection.
func (h *hub) allLive(subs []subject) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range subs {
		if t := h.topics[sub]; t == nil || !t.live {
			return false
		}
	}
	return true
}

// leave ends what listen began. It may be called twice.
func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := l.topic
	if _, there := t.listeners[l]; !there {
		return
	}
	delete(t.listeners, l)
	if len(t.listeners) > 0 {
		return
	}
	t.idleSince = time.Now()
	if !t.queued {
		t.queued = true
		h.idle = append(h.idle, t)
	}
}

// poke wakes the writer.
func (h *hub) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// plan is what the writer is to do next.
type plan struct {
	subscribe   []*topic
	unsubscribe []*topic
	greet       []*listener
}

// plan takes over all that is to be done.
func (h *hub) plan(now time.Time) plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := plan{unsubscribe: h.dropIdleLocked(now)}
	for _, t := range h.unsent {
		if !t.gone {
			p.subscribe = append(p.subscribe, t)
		}
	}
	for _, l := range h.ungreet {
		if _, there := l.topic.listeners[l]; there && l.topic.live {
			p.greet = append(p.greet, l) // if it is not live any more, the next confirmation greets
		}
	}
	h.unsent, h.ungreet = nil, nil
	return p
}

// dropIdleLocked forgets the topics nobody listened to for long enough and returns them.
func (h *hub) dropIdleLocked(now time.Time) (dropped []*topic) {
	for len(h.idle) > 0 {
		t := h.idle[0]
		if len(t.listeners) == 0 && now.Sub(t.idleSince) < h.linger {
			break
		}
		h.idle = h.idle[1:]
		t.queued = false
		if len(t.listeners) > 0 {
			continue
		}
		t.gone, t.live = true, false
		delete(h.topics, t.subject)
		dropped = append(dropped, t)
	}
	h.metrics.subscriptions.Set(float64(len(h.topics)))
	return dropped
}

// again puts topics back that could not be subscribed.
func (h *hub) again(ts []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsent = append(h.unsent, ts...)
}

// tell passes on what the connection heard of a subject.
func (h *hub) tell(sub subject, what heard) {
	h.mu.Lock()
	t := h.topics[sub]
	if t == nil {
		h.mu.Unlock()
		return
	}
	if what.live {
		t.live = true
	}
	ls := make([]*listener, 0, len(t.listeners))
	for l := range t.listeners {
		ls = append(ls, l)
	}
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(what)
	}
}

// deaf takes note that one subject is not heard at the moment.
func (h *hub) deaf(sub subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[sub]; t != nil {
		t.live = false
	}
}

// allDeaf takes note that nothing is heard at the moment.
func (h *hub) allDeaf() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.live = false
	}
}
