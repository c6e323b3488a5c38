package hub

import (
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
	down  atomic.Bool  // nobody is reached
	dials atomic.Int64 // with a ctx that was not over
	mu    sync.Mutex   // guards all
	all   []*wired
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
		Linger: time.Millisecond, Patience: time.Minute, Sharded: sharded,
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
