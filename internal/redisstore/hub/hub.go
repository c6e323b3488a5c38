package hub

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Hub hears all channels over one connection and passes on what it hears.
//
// Callers only note what they want; two goroutines do the rest (conn.go). A channel is subscribed while somebody
// listens to it and for Config.Linger longer, because a busy name soon has another listener.
type Hub struct {
	Config

	log    *zap.Logger
	client *redis.Client
	conn   *redis.PubSub
	id     atomic.Int64 // Redis's number of the connection
	made   atomic.Int64 // how many connections were made
	seen   int64        // how many of them the reader knows of
	dials  atomic.Int64 // how often one was tried

	wake    chan struct{} // size 1: there is something to do for the writer
	reading bool          // the reader runs; only the writer knows
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex        // guards the fields below and all topics
	topics  map[string]*topic // by channel
	unsent  []*topic          // to be subscribed
	lost    bool              // Redis refused or ended a subscription since retry looked
	unheard []*topic          // to be unsubscribed
	ungreet []*listener       // those that joined a topic that was live already
	idle    []idle            // topics without listeners, roughly in the order in which they are to be dropped
	sweeps  bool              // sweep runs, or a timer will start it

	unasked   []func()   // to be called when Redis answers the next question; see passed.go
	asked     []question // in the order of their numbers
	questions uint64     // the number of the last one
}

// Config says how a Hub works.
type Config struct {
	// Linger is how long a channel stays subscribed after its last listener left.
	Linger time.Duration
	// Patience is how often the connection is checked, and how long Redis may take to answer.
	Patience time.Duration

	// Sharded says whether a channel has a cluster slot, so that it is subscribed by SSUBSCRIBE. It may be nil.
	Sharded func(channel string) bool

	Metrics Metrics
}

// Metrics are told what the Hub does.
type Metrics struct {
	Channels      prometheus.Gauge   // subscribed, or about to be
	Interruptions prometheus.Counter // of the connection
}

// Heard is what a listener is told: that its channel was subscribed, once or again (Live); that it is not heard at the
// moment (Deaf); a message; or keys that changed.
type Heard struct {
	Live, Deaf bool
	Message    string
	Keys       []string
}

// topic is a channel that is subscribed.
type topic struct {
	channel   string
	brief     bool // it does not stay after the last listener left
	listeners map[*listener]struct{}
	live      bool      // Redis confirmed the subscription on the present connection
	gone      bool      // unsubscribed, and replaced if the channel is in Hub.topics again
	idle      bool      // it is in Hub.idle
	until     time.Time // until when it stays after the last listener left
}

// idle is a topic without listeners, which stays at least until then.
type idle struct {
	topic *topic
	until time.Time
}

// listener hears one topic.
type listener struct {
	topic *topic
	hear  func(Heard)
}

// New makes a Hub with one connection, which is made when something is listened to.
func New(o redis.Options, cfg Config, log *zap.Logger) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{
		Config: cfg, log: log,
		wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel, topics: make(map[string]*topic),
	}
	o.ClientName = "lockd-hear"
	check := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if check != nil {
			if err := check(ctx, cn); err != nil {
				return err
			}
		}
		h.made.Add(1)
		n, err := cn.ClientID(ctx).Result()
		h.id.Store(n)
		return err
	}
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&o)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.dials.Add(1)
		if err := ctx.Err(); err != nil { // else each would look up the name, in a goroutine of its own
			return nil, err
		}
		return dial(ctx, network, addr)
	}
	h.client = redis.NewClient(&o)
	h.conn = h.client.Subscribe(ctx)
	h.wg.Go(h.write)
	return h
}

// ID is Redis's number of the connection, 0 before the first one.
func (h *Hub) ID() int64 { return h.id.Load() }

// Close ends the connection and waits for both goroutines.
func (h *Hub) Close() {
	h.cancel()
	_ = h.conn.Close() // it can only be closed already
	h.wg.Wait()
	_ = h.client.Close() // likewise
}

// Listen calls hear with what comes from a channel, until stop. It never waits for the network. hear must not block.
func (h *Hub) Listen(channel string, hear func(Heard)) (stop func()) {
	return h.join(channel, false, hear)
}

// ListenBriefly is Listen for a channel to which nobody will listen again: it does not linger.
func (h *Hub) ListenBriefly(channel string, hear func(Heard)) (stop func()) {
	return h.join(channel, true, hear)
}

func (h *Hub) join(channel string, brief bool, hear func(Heard)) (stop func()) {
	l := &listener{hear: hear}
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, brief: brief, listeners: make(map[*listener]struct{})}
		h.topics[channel] = t
		h.Metrics.Channels.Set(float64(len(h.topics)))
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

// AllLive says whether Redis confirmed all of some channels on the present connection.
func (h *Hub) AllLive(channels []string) bool {
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
func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := l.topic
	if _, there := t.listeners[l]; !there {
		return
	}
	delete(t.listeners, l)
	switch {
	case len(t.listeners) > 0:
	case t.brief:
		h.dropLocked(t)
	default:
		t.until = time.Now().Add(h.Linger)
		h.lingerLocked(t)
	}
}

// lingerLocked has a topic without listeners dropped later. One timer serves all topics: with a timer each, ten
// thousand that are due at once would be as many goroutines, whose memory Go keeps.
func (h *Hub) lingerLocked(t *topic) {
	if t.idle {
		return
	}
	t.idle = true
	h.idle = append(h.idle, idle{t, t.until})
	if !h.sweeps {
		h.sweeps = true
		time.AfterFunc(h.Linger, h.sweep)
	}
}

// sweep drops the topics that are due.
func (h *Hub) sweep() {
	for h.sweepSome() {
	}
}

// sweepSome drops some topics that are due, and says whether there may be more. It does not drop all, because others
// want the mutex, too.
func (h *Hub) sweepSome() (more bool) {
	const some = 1000
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for range some {
		if len(h.idle) == 0 {
			h.idle, h.sweeps = nil, false
			return false
		}
		next := h.idle[0]
		if now.Before(next.until) {
			time.AfterFunc(next.until.Sub(now), h.sweep)
			return false
		}
		h.idle[0] = idle{} // else the array would keep the topic in memory
		h.idle = h.idle[1:]
		t := next.topic
		t.idle = false
		switch {
		case len(t.listeners) > 0:
		case now.Before(t.until): // somebody came and left again
			t.idle = true
			h.idle = append(h.idle, idle{t, t.until})
		default:
			h.dropLocked(t)
		}
	}
	return true
}

// dropLocked has a topic unsubscribed to which nobody listens.
func (h *Hub) dropLocked(t *topic) {
	t.gone, t.live = true, false
	delete(h.topics, t.channel)
	h.Metrics.Channels.Set(float64(len(h.topics)))
	if len(h.topics) == 0 { // maps do not shrink by themselves
		h.topics = make(map[string]*topic)
	}
	h.unheard = append(h.unheard, t)
	h.poke()
}

func (h *Hub) poke() {
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
	ask         uint64 // the number of a question, 0 for none
}

// plan takes over all that is to be done.
func (h *Hub) plan() plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := plan{unsubscribe: h.unheard}
	if len(h.unasked) > 0 { // one question for all
		h.questions++
		p.ask = h.questions
	}
	for _, then := range h.unasked {
		h.asked = append(h.asked, question{h.questions, then})
	}
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
	h.unsent, h.unheard, h.ungreet, h.unasked = nil, nil, nil, nil
	return p
}

// tell passes on what the connection heard of a channel.
func (h *Hub) tell(channel string, what Heard) {
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil || what.Deaf && !t.live { // the one that was unsubscribed is gone, or has been replaced
		h.mu.Unlock()
		return
	}
	if what.Live || what.Deaf {
		t.live = what.Live
		h.lost = h.lost || what.Deaf // Redis ended it: the slot went to another node, and may come back
	}
	ls := slices.Collect(maps.Keys(t.listeners))
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(what)
	}
}

// greet tells a listener that it is heard, and whether it still is: the reader may have told it otherwise meanwhile.
func (h *Hub) greet(l *listener) {
	for told, live := false, true; told != live; {
		l.hear(Heard{Live: live, Deaf: !live})
		told = live
		h.mu.Lock()
		if _, there := l.topic.listeners[l]; there {
			live = l.topic.live
		}
		h.mu.Unlock()
	}
}

// deaf tells listeners of certain topics that nothing is heard at the moment.
func (h *Hub) deaf(which func(t *topic) bool) {
	var ls []*listener
	h.mu.Lock()
	for _, t := range h.topics {
		if which(t) {
			ls = slices.AppendSeq(ls, maps.Keys(t.listeners))
			t.live = false
		}
	}
	h.mu.Unlock()
	for _, l := range ls {
		l.hear(Heard{Deaf: true})
	}
}
