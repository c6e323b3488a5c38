package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redistest"
)

// wire is a network that can be cut: then nothing can be written, and nobody is reached.
type wire struct {
	cut    atomic.Bool
	failed atomic.Int64
}

var errCut = errors.New("the wire is cut")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.cut.Load() {
		w.failed.Add(1)
		return nil, errCut
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return wired{c, w}, err
}

type wired struct {
	net.Conn
	*wire
}

func (c wired) Write(b []byte) (int, error) {
	if c.cut.Load() {
		c.failed.Add(1)
		return 0, errCut
	}
	return c.Conn.Write(b)
}

// go-redis subscribes on each new connection to what it was not told to unsubscribe. It is told of all, also when the
// connection breaks at the first of several commands.
func TestNoChannelStaysSubscribedWhenTheConnectionBreaksWhileManyAreLeft(t *testing.T) {
	server := redistest.Start(t)
	var w wire
	h := New(redis.Options{Addr: server.Addr, Protocol: 2, DialTimeout: time.Minute, Dialer: w.dial}, Config{
		Linger: time.Millisecond, Patience: time.Minute,
		Metrics: Metrics{prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})},
	}, zap.NewNop())
	defer h.Close()
	var all []string
	h.Listen("stays", func(Heard) {})
	for i := range 2 * maxSubscribe {
		all = append(all, fmt.Sprint("name ", i))
		h.Listen(all[i], func(Heard) {})
	}
	soon(t, "all are live", func() bool { return h.AllLive(append(all, "stays")) })

	w.cut.Store(true)
	h.mu.Lock() // so that all are left at once
	for _, channel := range all {
		clear(h.topics[channel].listeners)
		h.dropLocked(h.topics[channel])
	}
	h.mu.Unlock()
	soon(t, "the connection breaks", func() bool { return w.failed.Load() > 0 })
	w.cut.Store(false)

	soon(t, "the connection is back", func() bool { return h.AllLive([]string{"stays"}) })
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = c.Close() }()
	soon(t, "only one channel is left", func() bool {
		left, err := c.PubSubChannels(t.Context(), "*").Result()
		return err == nil && slices.Equal(left, []string{"stays"})
	})
}

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}
