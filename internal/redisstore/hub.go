package redisstore

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
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
	conn    *redis.PubSub

	wake   chan struct{} // size 1: there is something to do for the writer
	begun  chan struct{} // closed when the first channel was asked for
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the fields below and all topics
	topics  map[string]*topic
	unsent  []*topic    // to be subscribed
	ungreet []*listener // joined a topic that was live already
	idle    []*topic    // without listeners when they were put here, oldest first
}

// topic is one channel.
type topic struct {
	channel   string
	listeners map[*listener]struct{}
	live      bool      // Redis confirmed the subscription on the present connection
	gone      bool      // unsubscribed, and replaced if the channel is in hub.topics again
	queued    bool      // in hub.idle
	idleSince time.Time // when the last listener left
}

// listener hears one topic: live when the subscription was confirmed, once or again, else a message.
type listener struct {
	topic *topic
	hear  func(live bool, message string)
}

func newHub(client *redis.Client, cfg Config, log *zap.Logger, m *metrics) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{
		log: log, metrics: m, linger: cfg.Linger, patient: cfg.HearTimeout, conn: client.Subscribe(ctx),
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
}

// Listen implements broker.Store.
func (s *Store) Listen(name string, _ broker.Kind, notify func(broker.Notice)) (stop func()) {
	return s.hub.listen(channelKey(s.prefix+name), func(live bool, _ string) {
		if live {
			notify(broker.Notice{What: broker.NoticeListening})
		} else {
			notify(broker.Notice{What: broker.NoticeReleased})
		}
	})
}

// ListenForced implements broker.Store. "" comes after the first subscription, too.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.hub.listen(controlChannel, func(live bool, message string) {
		if live {
			notify("")
			return
		}
		// Other databases and other prefixes are other people's.
		if name, ours := strings.CutPrefix(message, s.forcedMark+s.prefix); ours && name != "" {
			notify(name)
		}
	})
}

// listen joins a channel. It never waits for the network.
func (h *hub) listen(channel string, hear func(live bool, message string)) (stop func()) {
	l := &listener{hear: hear}
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, listeners: make(map[*listener]struct{})}
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
	unsubscribe []string
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

// dropIdleLocked forgets the topics nobody listened to for long enough and returns their channels.
func (h *hub) dropIdleLocked(now time.Time) (channels []string) {
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
		delete(h.topics, t.channel)
		channels = append(channels, t.channel)
	}
	h.metrics.subscriptions.Set(float64(len(h.topics)))
	return channels
}

// again puts topics back that could not be subscribed.
func (h *hub) again(ts []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsent = append(h.unsent, ts...)
}

// tell passes on what the connection heard of a channel.
func (h *hub) tell(channel string, live bool, message string) {
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
		h.mu.Unlock()
		return
	}
	if live {
		t.live = true
	}
	ls := make([]*listener, 0, len(t.listeners))
	for l := range t.listeners {
		ls = append(ls, l)
	}
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(live, message)
	}
}

// deaf takes note that one channel, or all of them if it is "", are not heard at the moment.
func (h *hub) deaf(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if channel != "" {
		if t := h.topics[channel]; t != nil {
			t.live = false
		}
		return
	}
	for _, t := range h.topics {
		t.live = false
	}
}
