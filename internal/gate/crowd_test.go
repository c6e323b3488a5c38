package gate_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
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

// oneByOne is a store that does one thing after the other, as Redis does.
type oneByOne struct {
	lock.Store
	waiting atomic.Int64 // acquisitions

	mu   sync.Mutex // guards the field below
	free time.Time  // when all is done that was asked for
}

// Waiting and Share are for the gate: all is of one session.
func (s *oneByOne) Waiting() int            { return int(s.waiting.Load()) }
func (s *oneByOne) Share(string) (int, int) { return s.Waiting(), 1 }

// ask has something done when all is done that was asked for before, or refused if that takes too long.
func (s *oneByOne) ask(takes time.Duration, done func(refused error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, refused := max(time.Until(s.free), 0), error(nil)
	if wait > tooLong {
		takes, refused = 0, lock.ErrUnavailable
	}
	s.free = time.Now().Add(wait + takes)
	time.AfterFunc(wait+takes, func() { done(refused) })
}

func (s *oneByOne) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	s.waiting.Add(1)
	s.ask(acquireTime, func(refused error) {
		s.waiting.Add(-1)
		if refused != nil {
			done(lock.Grant{}, refused)
			return
		}
		done(lock.Await(context.Background(), s.Store.StartAcquire, c))
	})
}

func (s *oneByOne) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	var wg sync.WaitGroup
	from := 0
	for some := range slices.Chunk(rs, 100) {
		first := from
		from += len(some)
		wg.Add(1)
		s.ask(renewTime*time.Duration(len(some)), func(refused error) {
			defer wg.Done()
			s.Store.Renew(ctx, some, func(i int, err error) { done(first+i, cmp.Or(refused, err)) })
		})
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
	store, reg := &oneByOne{Store: memstore.New()}, prometheus.NewRegistry()
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
		s, err := b.Open(session.OpenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 4 / clients) // else all are heard at the same times
		taking.Go(func() { c.take(s, g, i) })
		beating.Go(func() { every(ttl/3, over, func() { s.Heartbeat(0, 1) }) })
	}
	beating.Go(func() { every(10*time.Millisecond, over, func() { c.latest = max(c.latest, dog.Late()) }) })
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
	return c
}

// take takes a client's leases, a piece of requests after the other, as a stream's reader hands them on.
func (c *crowd) take(s *broker.Session, g *gate.Gate, n int) {
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
			g.Enter(s.ID(), len(piece), time.Second, nil) // as a stream's reader
		}
		s.Hear()
		s.Requests(piece)
		under += len(piece)
		<-s.Outbox().Wake()
		for _, e := range s.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
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

// every does something now and each time after a pause, until it is over.
func every(pause time.Duration, over <-chan struct{}, do func()) {
	for {
		do()
		select {
		case <-over:
			return
		case <-time.After(pause):
		}
	}
}
