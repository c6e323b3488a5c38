package broker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// TestAHeartbeatIsNeverAnsweredWithMoreThanTheStoreHolds has a session do whatever it may to its leases, on a store
// that answers late or not at all. Then the store is well: what is told is no less than what renewals make of it.
func TestAHeartbeatIsNeverAnsweredWithMoreThanTheStoreHolds(t *testing.T) {
	for seed := range tier.Pick[uint64](3, 15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newChaos(memstore.New(), seed)
				h := &careless{Rand: rand.New(rand.NewPCG(seed, 2)), t: t, store: store, permits: make(map[string]session.Hold)}
				w := startOn(t, testConfig(), store)
				h.ttl = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}[seed%3]
				h.c = w.openWith(session.OpenRequest{TTL: h.ttl})
				h.names = []int{3, 12, 18, 40, 300}[seed%5]
				store.setCalm(true)
				h.live(50, false)
				store.setCalm(seed%4 == 0)
				h.live(400, false)
				store.calmDown()
				h.live(int((10*time.Second+2*h.ttl)/h.pause()), true)
				store.late.Wait()
				if _, auto := h.c.Soonest(); len(auto) == 0 || h.acks < 100 {
					t.Errorf("%d auto leases and %d acks are too few to prove anything", len(auto), h.acks)
				}
			})
		})
	}
}

func (c *chaos) setCalm(calm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = calm
}

// careless is a client that does random things.
type careless struct {
	*rand.Rand
	t     *testing.T
	store *chaos
	c     *client
	ttl   time.Duration
	names int
	acks  int

	permits map[string]session.Hold
}

func (h *careless) pause() time.Duration { return h.ttl / 20 }

// live does random things for some steps; if quiet it only sends heartbeats.
func (h *careless) live(steps int, quiet bool) {
	began := time.Now()
	for i := range steps {
		if n := h.IntN(6); i%5 == 0 || n == 0 {
			h.c.Heartbeat(0, uint64(i))
		}
		for range h.IntN(8) {
			if !quiet {
				h.act()
			}
		}
		h.check(quiet && time.Since(began) > 5*time.Second+h.ttl)
		time.Sleep(time.Duration(h.Int64N(int64(2 * h.pause()))))
	}
}

func (h *careless) act() {
	i := h.IntN(h.names)
	kind := []lock.Kind{lock.Exclusive, lock.Read, lock.Semaphore, lock.Fair}[i%4]
	hold := session.Hold{Name: name(i), Kind: kind, Holder: "me"}
	if kind == lock.Semaphore { // has no named holders
		hold.Holder = ""
		if held, ok := h.permits[hold.Name]; ok && h.IntN(3) > 0 {
			hold = held
		}
	}
	switch n := h.IntN(20); {
	case n < 10:
		req := request.Acquire{Name: hold.Name, Kind: kind, Wait: new(time.Duration(0)), Lease: h.lease()}
		if kind == lock.Semaphore {
			req.Permits, req.Limit = 3, 10
		} else {
			req.Holder = "me"
		}
		h.c.acquire(req)
	case n < 12:
		h.c.Release(h.c.id(), hold)
	case n < 13 && kind == lock.Semaphore:
		h.c.ReleasePermits(h.c.id(), request.Release{Hold: hold, Keep: 1})
	default:
		h.c.Extend(h.c.id(), request.Extend{Hold: hold, Lease: h.lease(), MayShorten: h.IntN(2) == 0})
	}
}

// lease is nil for an auto one.
func (h *careless) lease() *time.Duration {
	if h.IntN(3) > 0 {
		return nil
	}
	most := []time.Duration{h.ttl / 2, 2 * h.ttl, 20 * h.ttl}[h.IntN(3)]
	return new(100*time.Millisecond + time.Duration(h.Int64N(int64(most))))
}

// check looks at what is told at this moment. In the end all leases are to be known as renewed.
func (h *careless) check(renewed bool) {
	for _, e := range h.c.events() {
		switch e := e.(type) {
		case session.Granted:
			if e.Hold.Kind == lock.Semaphore {
				h.permits[e.Hold.Name] = e.Hold
			}
		case session.HeartbeatAck:
			h.acks++
		}
	}
	told, auto := h.c.Soonest()
	if told.IsZero() != (len(auto) == 0) {
		h.t.Fatalf("told %v of %d auto leases", told, len(auto))
	}
	for name, until := range auto {
		if until.Before(told) {
			h.t.Fatalf("%v is told, but %s ends %v earlier", told, name, told.Sub(until))
		}
		st, err := h.store.Store.Look(h.t.Context(), name)
		must(h.t, err)
		if left := time.Until(told); left > 0 && st.TTL < left {
			h.t.Fatalf("%v is told, but the store holds %s for %v (%+v)", left, name, st.TTL, st)
		}
	}
	if least := h.ttl * 4 / 10; renewed && len(auto) > 0 && time.Until(told) < least {
		h.t.Fatalf("%v is told of %d auto leases, want at least %v", time.Until(told), len(auto), least)
	}
}

// TestAReadHoldThatIsNotRenewedDoesNotShortenWhatIsToldOfOthers has a hold whose release had to be repeated, so the one
// that is taken after it may be released late and is not trusted for longer than the older ones. These last long.
func TestAReadHoldThatIsNotRenewedDoesNotShortenWhatIsToldOfOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		read := request.Acquire{Name: "job", Kind: lock.Read, Holder: "me", Lease: new(time.Hour)}
		for range 2 {
			c.takeAs(read)
		}
		lost := false
		w.store.on("Release", func(next func() error) error {
			err := next()
			if !lost {
				lost, err = true, lock.ErrOutcomeUnknown
			}
			return err
		})
		c.release(session.Hold{Name: "job", Kind: lock.Read, Holder: "me"})
		read.Lease = nil
		c.takeAs(read)
		c.take("other")
		time.Sleep(5 * time.Minute)
		c.none()
		if told, auto := c.Soonest(); len(auto) != 2 || time.Until(told) < c.TTL()/2 {
			t.Errorf("%v is told of %d auto leases, want about a session TTL of 2", time.Until(told), len(auto))
		}
	})
}
