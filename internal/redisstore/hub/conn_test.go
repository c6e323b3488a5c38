package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redistest"
)

// wire is a network. What was written to can be cut off, and all of it.
type wire struct {
	patience time.Duration // of the hub, a minute if it is 0
	down     atomic.Bool   // nobody is reached
	dials    atomic.Int64  // with a ctx that was not over
	mu       sync.Mutex    // guards all
	all      []*wired
}

var errCut = errors.New("the wire is cut")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Err() == nil {
		w.dials.Add(1)
	}
	if w.down.Load() {
		return nil, errCut
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, &wired{Conn: c})
	return w.all[len(w.all)-1], nil
}

// cut has nothing be written any more on the connections that there are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		c.cut.Store(true)
	}
}

type wired struct {
	net.Conn
	cut atomic.Bool
}

func (c *wired) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return 0, errCut
	}
	return c.Conn.Write(b)
}

func (w *wire) hub(t *testing.T, server *redistest.Server, sharded func(string) bool) *Hub {
	o := redis.Options{Addr: server.Addr, Protocol: 2, DialTimeout: time.Minute, Dialer: w.dial, MaxRetries: -1}
	h := New(o, Config{
		Linger: time.Millisecond, Patience: cmp.Or(w.patience, time.Minute), Sharded: sharded,
		Metrics: Metrics{prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})},
	}, zap.NewNop())
	t.Cleanup(h.Close)
	return h
}

// listenTo joins so many channels, and waits until they are live.
func (h *Hub) listenTo(t *testing.T, n int) (channels []string) {
	for i := range n {
		channels = append(channels, fmt.Sprint("name ", i))
		h.Listen(channels[i], func(Heard) {})
	}
	soon(t, "all are live", func() bool { return h.AllLive(channels) })
	return channels
}

// leaveAll leaves channels, all at once.
func (h *Hub) leaveAll(channels []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, channel := range channels {
		clear(h.topics[channel].listeners)
		h.dropLocked(h.topics[channel])
	}
}

// go-redis subscribes on each new connection to what it was not told to unsubscribe. It is told of all, also when the
// connection breaks at the first of several commands; and the connection that it makes then is not broken again.
func TestNoChannelStaysSubscribedWhenTheConnectionBreaksWhileManyAreLeft(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("nobody is reached: %v", down), func(t *testing.T) {
			server := redistest.Start(t)
			var w wire
			h := w.hub(t, server, nil)
			h.Listen("stays", func(Heard) {})
			all := h.listenTo(t, 4*maxSubscribe)
			before := w.dials.Load()

			w.down.Store(down)
			w.cut()
			h.leaveAll(all)
			soon(t, "there is another connection", func() bool { return w.dials.Load() > before })
			w.down.Store(false)
			soon(t, "only one channel is left", func() bool {
				left, err := server.Client().PubSubChannels(t.Context(), "*").Result()
				return err == nil && slices.Equal(left, []string{"stays"}) && h.AllLive(left)
			})
			if n := w.dials.Load() - before; !down && n != 1 {
				t.Errorf("%d connections were made in place of one", n)
			}
		})
	}
}

// When nobody is reached, no connection is tried for each of the channels with slots, which are left one by one.
func TestLeavingManyChannelsTriesFewConnections(t *testing.T) {
	var w wire
	h := w.hub(t, cluster(t), func(channel string) bool { return channel != "stays" })
	h.Listen("stays", func(Heard) {})
	all := h.listenTo(t, 1000)
	before := w.dials.Load()
	w.down.Store(true)
	w.cut()
	h.leaveAll(all)
	soon(t, "go-redis is told of all", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.unheard) == 0 && w.dials.Load() > before
	})
	h.Close()
	if n := w.dials.Load() - before; n > 100 {
		t.Errorf("%d connections were tried", n)
	}
}

// The writer replaces the connection while the reader is busy telling a listener. Then the reader does not see the old
// one break, and hears only that Redis refuses what go-redis asks for on the new one.
func TestChannelsWithSlotsAreHeardAgainAfterAConnectionThatTheReaderDidNotSeeBreak(t *testing.T) {
	server := cluster(t)
	var w wire
	h := w.hub(t, server, func(channel string) bool { return channel != "stays" })
	busy, goOn := make(chan struct{}, 1), make(chan struct{})
	h.Listen("stays", func(heard Heard) {
		if heard.Message != "" {
			busy <- struct{}{}
			<-goOn
		}
	})
	all := h.listenTo(t, 8)
	left, kept := all[:4], all[4:]
	before := w.dials.Load()
	soon(t, "the reader is busy", func() bool {
		server.Client().Publish(t.Context(), "stays", "x")
		return len(busy) > 0
	})
	w.cut()
	h.leaveAll(left)
	soon(t, "there is another connection", func() bool { return w.dials.Load() > before })
	close(goOn)
	soon(t, "all are subscribed", func() bool {
		have, err := server.Client().PubSubShardChannels(t.Context(), "*").Result()
		slices.Sort(have)
		return err == nil && slices.Equal(have, kept) && h.AllLive(kept)
	})
}

// heard is what a listener was told last.
type heard struct{ last atomic.Pointer[Heard] }

func (e *heard) hear(what Heard) { e.last.Store(&what) }

func (e *heard) is(live bool) bool {
	last := e.last.Load()
	return last != nil && last.Live == live && last.Deaf != live
}

// A slot goes to another node and comes back, and nobody looks up in between where it is.
func TestAChannelWhoseSlotCameBackIsHeardAgain(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	c := server.Client()
	w := wire{patience: time.Second}
	h := w.hub(t, server, func(string) bool { return true })
	h.Linger = time.Minute
	var stays, leaves, comes heard
	h.Listen("stays", stays.hear)
	stop := h.Listen("left", leaves.hear)
	soon(t, "both are heard", func() bool { return stays.is(true) && leaves.is(true) })
	slot := func(channel string) int { return int(c.ClusterKeySlot(t.Context(), channel).Val()) }
	must(t, c.ClusterDelSlots(t.Context(), slot("left")).Err())
	soon(t, "one is not", func() bool { return leaves.is(false) })
	stop()
	must(t, c.ClusterAddSlots(t.Context(), slot("left")).Err())
	h.Listen("left", comes.hear)
	soon(t, "who comes is heard", func() bool { return comes.is(true) })
	must(t, c.ClusterDelSlots(t.Context(), slot("stays")).Err())
	soon(t, "the other is not", func() bool { return stays.is(false) })
	must(t, c.ClusterAddSlots(t.Context(), slot("stays")).Err())
	soon(t, "it is heard again", func() bool { return stays.is(true) })
}

// Redis refuses each of many channels, because nobody has their slot. The connection hears the others as before.
func TestRefusedChannelsDelayNoOthers(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	c := server.Client()
	var w wire
	h := w.hub(t, server, func(string) bool { return true })
	message := make(chan string, 1)
	var live heard
	h.Listen("{heard}", func(what Heard) {
		if live.hear(what); what.Message != "" {
			message <- what.Message
		}
	})
	soon(t, "it is heard", func() bool { return live.is(true) })
	must(t, c.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	must(t, c.ClusterDelSlots(t.Context(), int(c.ClusterKeySlot(t.Context(), "{refused}").Val())).Err())
	soon(t, "the other slots are served", func() bool { return c.SPublish(t.Context(), "{heard}", "").Err() == nil })
	const many = 30
	for i := range many {
		h.Listen(fmt.Sprint("{refused}", i), func(Heard) {})
	}
	soon(t, "all are refused", func() bool {
		_, stats, _ := strings.Cut(c.Info(t.Context(), "errorstats").Val(), "errorstat_CLUSTERDOWN:count=")
		var n int
		_, _ = fmt.Sscan(stats, &n)
		return n >= many
	})
	must(t, c.SPublish(t.Context(), "{heard}", "x").Err())
	soon(t, "a message is heard", func() bool { return len(message) > 0 })
}

// Who comes to a channel that is heard is told so by the writer. Meanwhile the reader tells that it is heard no more.
func TestAGreetingDoesNotOutliveWhatItSays(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	c := server.Client()
	var w wire
	h := w.hub(t, server, func(string) bool { return true })
	var first, second heard
	h.Listen("x", first.hear)
	soon(t, "it is heard", func() bool { return first.is(true) })
	greeting, goOn, greeted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var told atomic.Bool
	h.Listen("x", func(what Heard) {
		if !told.CompareAndSwap(false, true) {
			second.hear(what)
			return
		}
		close(greeting)
		<-goOn
		second.hear(what)
		close(greeted)
	})
	<-greeting
	must(t, c.ClusterDelSlots(t.Context(), int(c.ClusterKeySlot(t.Context(), "x").Val())).Err())
	soon(t, "it is not", func() bool { return first.is(false) && second.is(false) })
	close(goOn)
	<-greeted
	soon(t, "the second is told so", func() bool { return second.is(false) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is one node that has all slots.
func cluster(t *testing.T) *redistest.Server {
	s := redistest.Start(t, "--cluster-enabled", "yes")
	if err := s.Client().PubSubShardChannels(t.Context(), "*").Err(); err != nil {
		t.Skip("this Redis has no channels with slots: ", err)
	}
	if err := s.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the cluster is well", func() bool {
		return strings.Contains(s.Client().ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	return s
}

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}
