package cluster

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/redistest/rig"
	"github.com/lockd-io/lockd/internal/tier"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaits()
	goleak.VerifyTestMain(m,
		// As in redisstore.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.init.0.func1"))
}

// open opens a Store on a cluster until the test ends.
func open(t testing.TB, c *redistest.Cluster) *Store {
	t.Helper()
	return openWith(t, Config{
		Addrs: c.Addrs()[:2],
		Node:  redisstore.Config{OpTimeout: 5 * time.Second, HearTimeout: time.Minute, Linger: 50 * time.Millisecond},
	})
}

func openWith(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg, zaptest.NewLogger(t), metrics(t))
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func metrics(t testing.TB) *redisstore.Metrics {
	m, err := redisstore.NewMetrics(nil)
	must(t, err)
	return m
}

// client is one that finds its way in a cluster by itself.
func client(t testing.TB, c *redistest.Cluster) *redis.ClusterClient {
	cc := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func TestContract(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	cc := client(t, c)
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		must(t, rig.Flush(t.Context(), cc))
		return storetest.Rig{Store: settled(t, open(t, c)), Hooks: rig.Hooks(t.Context(), cc, ""), Apart: true}
	})
}

// losing executes all batches, and loses the replies of the second one of a kind.
type losing struct {
	which   func(args []any) bool
	batches atomic.Int32
}

func (l *losing) Send(_ []*redis.Cmd, write func() error) error { return write() }

func (l *losing) Answered(cmds []*redis.Cmd) error {
	is := func(cmd *redis.Cmd) bool { return l.which(cmd.Args()) }
	if slices.ContainsFunc(cmds, is) && l.batches.Add(1) == 2 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// slower has each batch take so much longer.
type slower time.Duration

func (s slower) Send(_ []*redis.Cmd, write func() error) error {
	time.Sleep(time.Duration(s))
	return write()
}

func (s slower) Answered([]*redis.Cmd) error { return nil }

// dropping sends no batch of some kinds: the connection breaks before it.
type dropping struct {
	mu    sync.Mutex // guards the field below
	which func(args []any) bool
}

// all has batches dropped in which one of the commands is such, from now on. With nil none is.
func (d *dropping) all(which func(args []any) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.which = which
}

func (d *dropping) Send(cmds []*redis.Cmd, write func() error) error {
	d.mu.Lock()
	which := d.which
	d.mu.Unlock()
	if which != nil && slices.ContainsFunc(cmds, func(cmd *redis.Cmd) bool { return which(cmd.Args()) }) {
		return io.ErrUnexpectedEOF
	}
	return write()
}

func (d *dropping) Answered([]*redis.Cmd) error { return nil }
