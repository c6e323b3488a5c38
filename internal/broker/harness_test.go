package broker_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redlock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/settle"
	"github.com/lockd-io/lockd/internal/watchdog"
	"github.com/lockd-io/lockd/test/harness"
)

// world is a broker on a memory store in a bubble.
type world struct {
	t     testing.TB
	cfg   broker.Config
	store *faults
	b     *broker.Broker
	reg   *prometheus.Registry
}

// metric is the value of one that has no labels.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	must(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}

func testConfig() broker.Config { return brokertest.Config() }

// inWorld runs a test in a bubble, where time passes only while everybody sleeps.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorldWith(t, testConfig(), test)
}

func inWorldWith(t *testing.T, cfg broker.Config, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &faults{Store: memstore.New()}
		w := start(t, cfg, store)
		test(w)
	})
}

// start starts a replica on a store, and stops it at the end of the test.
func start(t testing.TB, cfg broker.Config, store *faults) *world {
	w := startOn(t, cfg, store)
	w.store = store
	return w
}

// startOn is start on any store.
func startOn(t testing.TB, cfg broker.Config, store lock.Store) *world {
	return startLogging(t, cfg, store, zap.NewNop())
}

// startLogging is startOn with a log.
func startLogging(t testing.TB, cfg broker.Config, store lock.Store, log *zap.Logger) *world {
	reg := prometheus.NewRegistry()
	dog := watchdog.New[*broker.Lease](store, log, reg)
	return startKept(t, cfg, store, dog, dog, log, reg)
}

// startKept is startLogging with a Keeper, which is a watchdog or has one.
func startKept(t testing.TB, cfg broker.Config, store lock.Store, keeper broker.Keeper,
	dog *watchdog.Watchdog[*broker.Lease], log *zap.Logger, reg *prometheus.Registry,
) *world {
	w := &world{t: t, cfg: cfg, reg: reg, b: broker.New(cfg, settled(t, store), keeper, log, reg)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // else what never ends would be waited for
		defer cancel()
		if err := w.b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		dog.Close()
	})
	return w
}

// settled has a store settle what it could not tell. A majority leaves that to its members.
func settled(t testing.TB, store lock.Store) lock.Store {
	switch store.(type) {
	case *redlock.Store, *book:
		return store
	}
	return settledBy(t, store, settle.Config{})
}

// settledMember does so for a member of a majority.
func settledMember(t testing.TB, m lock.Store) lock.Store {
	return settledBy(t, m, settle.Config{Member: true})
}

func settledBy(t testing.TB, store lock.Store, cfg settle.Config) lock.Store {
	s, err := settle.New(store, cfg, zap.NewNop(), nil)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// client is a session with the events it has heard.
type client struct {
	*broker.Session
	t      testing.TB
	lastID uint64
	back   []session.Event
}

func (w *world) open() *client { return w.openWith(session.OpenRequest{}) }

func (w *world) openWith(req session.OpenRequest) *client {
	w.t.Helper()
	s, err := w.b.Open(req)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	return &client{Session: s, t: w.t}
}

// alive opens a session that sends heartbeats until the test ends; the acks are not told.
func (w *world) alive() *client {
	c := w.open()
	w.t.Cleanup(c.beats())
	return c
}

// beats has a client send heartbeats.
func (c *client) beats() (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(c.HeartbeatInterval()):
				c.Hear()
			case <-over:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(over); <-done })
}

func (c *client) id() uint64 { c.lastID++; return c.lastID }

// events waits until nothing more happens at this moment, and takes what was told.
func (c *client) events() []session.Event {
	synctest.Wait()
	events := append(c.back, c.Outbox().TakeSome(math.MaxInt, math.MaxInt)...)
	c.back = nil
	return events
}

// one takes the only event there is, of type E.
func one[E session.Event](c *client) E {
	c.t.Helper()
	events := c.events()
	if len(events) != 1 {
		c.t.Fatalf("got %d events %#v, want one %T", len(events), events, *new(E))
	}
	e, ok := events[0].(E)
	if !ok {
		c.t.Fatalf("got %T %v, want %T", events[0], events[0], *new(E))
	}
	return e
}

// await is the next event that a client is told, but for positions in a queue.
func (c *client) await() session.Event {
	for {
		for len(c.back) == 0 {
			<-c.Outbox().Wake()
			c.back = c.Outbox().TakeSome(math.MaxInt, math.MaxInt)
		}
		e := c.back[0]
		c.back = c.back[1:]
		if _, queued := e.(session.Queued); !queued {
			return e
		}
	}
}

// until takes events until is accepts one.
func (c *client) until(is func(session.Event) bool) {
	for !is(c.await()) {
	}
}

func (c *client) awaitGrant() (g session.Granted) {
	c.until(func(e session.Event) (is bool) { g, is = e.(session.Granted); return is })
	return g
}

// none checks that nothing was told.
func (c *client) none() {
	c.t.Helper()
	if events := c.events(); len(events) > 0 {
		c.t.Fatalf("got %#v, want nothing", events)
	}
}

func (c *client) acquire(req request.Acquire) uint64 {
	if req.Kind == 0 {
		req.Kind = lock.Exclusive
	}
	id := c.id()
	c.Acquire(id, req)
	return id
}

// take acquires a free lock.
func (c *client) take(name string) session.Granted {
	c.t.Helper()
	c.acquire(request.Acquire{Name: name})
	return one[session.Granted](c)
}

// queue asks for a lock and waits.
func (c *client) queue(name string) uint64 {
	c.t.Helper()
	id := c.acquire(request.Acquire{Name: name})
	one[session.Queued](c)
	return id
}

// release releases a hold.
func (c *client) release(h session.Hold) {
	c.t.Helper()
	c.Release(c.id(), h)
	one[session.Released](c)
}

// failed takes the only event, which must be Failed with this error.
func (c *client) failed(want error) {
	c.t.Helper()
	if got := one[session.Failed](c); !isError(got.Err, want) {
		c.t.Fatalf("got %v, want %v", got.Err, want)
	}
}

func (w *world) look(name string) lock.State {
	w.t.Helper()
	st, err := w.store.Store.Look(w.t.Context(), name)
	must(w.t, err)
	return st
}

func (w *world) free(name string) {
	w.t.Helper()
	if st := w.look(name); st.Held {
		w.t.Fatalf("%q is held by %q, want free", name, st.Owner)
	}
}

func name(i int) string { return fmt.Sprintf("name-%d", i) }

// replica is a second broker on the same store.
func (w *world) replica() *world { return start(w.t, w.cfg, w.store) }

// severable is a replica whose way to the same store can be broken.
func (w *world) severable() (*world, *faults) {
	store := &faults{Store: w.store}
	return start(w.t, w.cfg, store), store
}

// lose has the store forget everything.
func (w *world) lose() { w.store.Store.(*memstore.Store).Lose() }

// putBack has events told once more.
func (c *client) putBack(events ...session.Event) { c.back = append(c.back, events...) }

var must = harness.Must // ends the test at an error
