package redisstore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// hub hears all channels over one connection and passes on what it hears.
//
// Callers only change what is wanted; two goroutines do the rest (hubconn.go). A channel is subscribed while somebody
// listens to it and for a while longer, as busy names are listened to again and again.
type hub struct {
	log     *zap.Logger
	metrics *metrics
	linger  time.Duration
	patient time.Duration // Config.HearTimeout
	client  *redis.Client
	conn    *redis.PubSub

	wake   chan struct{} // size 1: there is something to do for the writer
	begun  chan struct{} // closed when the first channel was asked for
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex        // guards the fields below and all topics
	topics  map[string]*topic // by channel
	unsent  []*topic          // to be subscribed
	ungreet []*listener       // joined a topic that was live already
	idle    []*topic          // without listeners when they were put here, oldest first
	over    []*topic          // likewise, but nobody will listen to them again
}

// heard is what comes from a channel: it was confirmed, once or again; it cannot be heard at the moment; or a message, or
// several keys.
type heard struct {
	live, deaf bool
	message    string
	keys       []string
}

// topic is a channel that is subscribed.
type topic struct {
	channel   string
	brief     bool // not listened to again once it was left
	listeners map[*listener]struct{}
	live      bool      // Redis confirmed the subscription on the present connection
	gone      bool      // unsubscribed, and replaced if the channel is in hub.topics again
	queued    bool      // in hub.idle or hub.over
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
		log: log, metrics: m, linger: cfg.Linger, patient: cfg.HearTimeout,
		client: client, conn: client.Subscribe(ctx),
		wake: make(chan struct{}, 1), begun: make(chan struct{}), ctx: ctx, cancel: cancel,
		topics: make(map[string]*topic),
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
	_ = h.client.Close() // likewise
}

// listen joins a channel. It never waits for the network.
func (h *hub) listen(channel string, hear func(heard)) (stop func()) {
	return h.join(channel, false, hear)
}

// listenBriefly is listen to a channel that nobody will listen to again.
func (h *hub) listenBriefly(channel string, hear func(heard)) (stop func()) {
	return h.join(channel, true, hear)
}

func (h *hub) join(channel string, brief bool, hear func(heard)) (stop func()) {
	l := &listener{hear: hear}
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, brief: brief, listeners: make(map[*listener]struct{})}
		h.topics[channel] = t
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

// allLive says whether Redis confirmed all of some channels on the present connection.
func (h *hub) allLive(channels []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, channel := range channels {
		if t := h.topics[channel]; t == nil || !t.live {
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
	if t.queued {
		return
	}
	t.queued = true
	if t.brief {
		h.over = append(h.over, t)
	} else {
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
	drop := func(t *topic) {
		t.queued = false
		if len(t.listeners) == 0 {
			t.gone, t.live = true, false
			delete(h.topics, t.channel)
			dropped = append(dropped, t)
		}
	}
	for _, t := range h.over {
		drop(t)
	}
	h.over = nil
	for len(h.idle) > 0 {
		t := h.idle[0]
		if len(t.listeners) == 0 && now.Sub(t.idleSince) < h.linger {
			break
		}
		h.idle[0] = nil // what is behind the list must not keep it
		h.idle = h.idle[1:]
		drop(t)
	}
	if len(h.topics) == 0 { // maps and lists do not shrink by themselves
		h.topics, h.idle = make(map[string]*topic), nil
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

// tell passes on what the connection heard of a channel.
func (h *hub) tell(channel string, what heard) {
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
		h.mu.Unlock()
		return
	}
	if what.live || what.deaf {
		t.live = what.live
	}
	ls := slices.Collect(maps.Keys(t.listeners))
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(what)
	}
}

// allDeaf tells all listeners that could hear that nothing is heard at the moment.
func (h *hub) allDeaf() {
	var ls []*listener
	h.mu.Lock()
	for _, t := range h.topics {
		if t.live {
			ls = slices.AppendSeq(ls, maps.Keys(t.listeners))
		}
		t.live = false
	}
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(heard{deaf: true})
	}
}
