package gate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watchdog"
)

const (
	acquireTime = 250 * time.Microsecond // 4,000 a second
	renewTime   = 100 * time.Microsecond // 10,000 a second
	tooLong     = time.Second            // what has waited so long is not done any more
)

// oneByOne is a store that does one thing after the other, as Redis does: some acquisitions and some renewals in turn.
type oneByOne struct {
	lock.Store
	acquire, renew chan func()
	over           chan struct{}
	waiting        atomic.Int64 // acquisitions
}

func newOneByOne() *oneByOne {
	s := &oneByOne{
		Store: memstore.New(), over: make(chan struct{}),
		acquire: make(chan func(), 1<<20), renew: make(chan func(), 1<<20),
	}
	go s.work()
	return s
}

// Waiting and Share are for the gate: all is of one session.
func (s *oneByOne) Waiting() int            { return int(s.waiting.Load()) }
func (s *oneByOne) Share(string) (int, int) { return s.Waiting(), 1 }

func (s *oneByOne) work() {
	for {
		for range min(inFlight, len(s.acquire)) {
			(<-s.acquire)()
		}
		if len(s.renew) > 0 {
			(<-s.renew)()
			continue
		}
		select {
		case work := <-s.acquire:
			work()
		case work := <-s.renew:
			work()
		case <-s.over:
			return
		}
	}
}

func (s *oneByOne) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	asked := time.Now()
	s.waiting.Add(1)
	s.acquire <- func() {
		s.waiting.Add(-1)
		if time.Since(asked) > tooLong {
			done(lock.Grant{}, lock.ErrUnavailable)
			return
		}
		time.Sleep(acquireTime)
		done(s.Store.Acquire(context.Background(), c))
	}
}

func (s *oneByOne) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	var wg sync.WaitGroup
	const chunk = 100
	for from := 0; from < len(rs); from += chunk {
		some, asked := rs[from:min(from+chunk, len(rs))], time.Now()
		wg.Add(1)
		s.renew <- func() {
			defer wg.Done()
			if time.Since(asked) > tooLong {
				for i := range some {
					done(from+i, lock.ErrUnavailable)
				}
				return
			}
			time.Sleep(renewTime * time.Duration(len(some)))
			s.Store.Renew(ctx, some, func(i int, err error) { done(from+i, err) })
		}
	}
	wg.Wait()
}

// crowd is what became of clients that take very many leases.
type crowd struct {
	granted, refused, lost atomic.Int64
	latest                 time.Duration // by so much a renewal was late at most
}

// TestRenewalsAreInTimeWhileAcquiresPourIn has clients take so many leases, as fast as they get them, that in the end
// the store is busy for two thirds of the time with renewing them. Without the gate it refuses acquisitions; that shows
// that the test can fail.
func TestRenewalsAreInTimeWhileAcquiresPourIn(t *testing.T) {
	tier.Long(t)
	synctest.Test(t, func(t *testing.T) {
		c := pourIn(t, true)
		if n := c.refused.Load() + c.lost.Load(); n > 0 {
			t.Errorf("%d leases were refused and %d lost", c.refused.Load(), c.lost.Load())
		}
		if c.latest > ttl/10 {
			t.Errorf("renewals were up to %v late", c.latest)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if c := pourIn(t, false); c.refused.Load() == 0 {
			t.Error("nothing was refused without the gate: this is no test of it")
		}
	})
}

const (
	ttl      = 30 * time.Second
	clients  = 80
	leases   = 50_000
	inFlight = 128
)

func pourIn(t *testing.T, gated bool) *crowd {
	t.Helper()
	store, reg := newOneByOne(), prometheus.NewRegistry()
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	cfg := brokertest.Config()
	cfg.Session.TTL = ttl
	b := broker.New(cfg, store, dog, zap.NewNop(), reg)
	var g *gate.Gate
	if gated {
		g = gate.New(store, dog.Late)
	}
	c := new(crowd)
	var taking, beating sync.WaitGroup
	over := make(chan struct{})
	for i := range clients {
		s, err := b.Open(broker.OpenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 4 / clients) // else all are heard at the same times
		beat := new(heart)
		taking.Go(func() { c.take(s, g, i, beat) })
		beating.Go(func() { beat.beat(s, over) })
	}
	beating.Go(func() { c.watch(dog, over) })
	taking.Wait()
	time.Sleep(2 * ttl)
	close(over)
	beating.Wait()
	if n := c.granted.Load(); gated && n != leases {
		t.Errorf("%d leases were granted, want %d", n, leases)
	}
	dog.Close() // first: what is left is not to be released
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	close(store.over)
	return c
}

// take takes a client's leases, a piece of requests after the other, as a stream's reader hands them on.
func (c *crowd) take(s *broker.Session, g *gate.Gate, n int, beat *heart) {
	id, under := uint64(0), 0
	for under > 0 || id < leases/clients {
		var piece []request.Request
		for under+len(piece) < inFlight && id < leases/clients {
			id++
			piece = append(piece, request.Request{ID: id, Verb: request.VerbAcquire, Acquire: request.Acquire{
				Name: fmt.Sprintf("%d:%d", n, id), Kind: lock.Exclusive,
			}})
		}
		if len(piece) > 0 && g.Stops(s.ID(), len(piece)) {
			g.Enter(s.ID(), len(piece), beat.patience(), nil)
		}
		s.Hear()
		s.Requests(piece)
		under += len(piece)
		<-s.Outbox().Wake()
		for _, e := range s.Outbox().Take() {
			switch e.(type) {
			case session.Granted:
				c.granted.Add(1)
				under--
			case session.Failed, session.NotGranted:
				c.refused.Add(1)
				under--
			case session.Lost:
				c.lost.Add(1)
			}
		}
	}
}

// heart knows when a client's last heartbeat was.
type heart struct {
	mu   sync.Mutex // guards the field below
	last time.Time
}

func (h *heart) beat(s *broker.Session, over <-chan struct{}) {
	for {
		h.mu.Lock()
		h.last = time.Now()
		h.mu.Unlock()
		s.Heartbeat(0, 1)
		select {
		case <-over:
			return
		case <-time.After(ttl / 3):
		}
	}
}

// patience is that of a stream's reader.
func (h *heart) patience() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(time.Until(h.last.Add(ttl*11/30)), time.Second)
}

// watch looks how late renewals are.
func (c *crowd) watch(dog *watchdog.Watchdog[*broker.Lease], over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
			c.latest = max(c.latest, dog.Late())
		}
	}
}
