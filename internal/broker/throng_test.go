package broker_test

import (
	"context"
	"errors"
	mrand "math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// throng is several sessions that do everything in one moment.
type throng struct {
	w     *world
	seed  uint64
	there sync.Map // session id -> *client
}

// jumpy is a store that lets others go first, at random, and does not always say what became of a call. Now and then
// a session ends in the moment in which the store answers it.
func (c *throng) jumpy(store lock.Store) lock.Store {
	f, jump := &faults{Store: store}, func() {
		for range mrand.IntN(8) {
			runtime.Gosched()
		}
	}
	for _, verb := range []string{"Acquire", "AcquireAll", "Release", "Extend"} {
		f.onCall(verb, func(k call) error {
			jump()
			err := k.do()
			if claim, ok := k.arg.(lock.Claim); ok && mrand.IntN(3) == 0 {
				if s, ok := c.there.Load(claim.Owner.Tenant()); ok {
					go s.(*client).End(errStreamBroke)
					for s.(*client).Operable() == nil {
						runtime.Gosched()
					}
					return err // while what it waits for is being withdrawn
				}
			}
			if jump(); mrand.IntN(30) == 0 {
				return errUnknown
			}
			return err
		})
	}
	return f
}

var errStreamBroke = errors.New("the stream broke")

// throngSize is how many sessions come at once.
const throngSize = 12

// TestAThrongLeavesNothing has sessions ask, nest, extend, release, cancel and end in one moment, again and again. When
// their time is over nothing is left of them: no lease, no waiter, no count and no lock. It fails if a session that has
// ended takes a lease, or, with -race, if a request for several names is answered with the mutex of one of them only.
func TestAThrongLeavesNothing(t *testing.T) {
	for _, seed := range seeds(1) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			c := &throng{seed: seed}
			c.w = startOn(t, testConfig(), c.jumpy(store))
			for round := range tier.Pick(15, 60) {
				all := c.come(uint64(round)) //nolint:gosec // small
				c.inspectEnded(all)
				time.Sleep(2 * time.Minute)
				c.inspect(all, store)
				if t.Failed() {
					t.Fatalf("in round %d with seed %d", round, seed)
				}
			}
		})
	}
}

// come has a throng come and go, and returns its sessions.
func (c *throng) come(round uint64) []*client {
	var wg sync.WaitGroup
	all := make([]*client, throngSize)
	for i := range all {
		rng := mrand.New(mrand.NewPCG(c.seed, round*throngSize+uint64(i))) //nolint:gosec // a test
		s := c.w.openWith(session.OpenRequest{ReleaseOnEnd: rng.IntN(2) == 0})
		all[i] = s
		c.there.Store(s.ID(), s)
		wg.Go(func() {
			for range rng.IntN(30) {
				c.act(s, rng)
			}
			switch rng.IntN(4) {
			case 0:
				s.Goodbye()
			case 1, 2:
				s.End(errStreamBroke)
			}
		})
	}
	wg.Wait()
	return all
}

// act does one thing.
func (c *throng) act(s *client, rng *mrand.Rand) {
	for range rng.IntN(4) {
		runtime.Gosched()
	}
	hold := session.Hold{Name: name(rng.IntN(4)), Kind: throngKind(rng), Holder: []string{"a", "b"}[rng.IntN(2)]}
	switch n := rng.IntN(20); {
	case n < 10:
		s.Acquire(s.id(), c.want(hold, rng))
	case n < 14:
		s.Release(s.id(), hold)
	case n < 15:
		s.Extend(s.id(), request.Extend{Hold: hold, Lease: new(time.Second), MayShorten: rng.IntN(2) == 0})
	case n < 16:
		s.Extend(s.id(), request.Extend{Hold: hold})
	case n < 18:
		s.Cancel(s.id(), uint64(1+rng.IntN(int(s.lastID)+1)))
	case n < 19:
		s.Watch(s.id(), hold.Name)
	default:
		s.Look(s.id(), hold.Name)
	}
}

func throngKind(rng *mrand.Rand) lock.Kind {
	return []lock.Kind{lock.Exclusive, lock.Exclusive, lock.Exclusive, lock.Read, lock.Write}[rng.IntN(5)]
}

func (c *throng) want(h session.Hold, rng *mrand.Rand) request.Acquire {
	req := request.Acquire{Name: h.Name, Kind: h.Kind, Holder: h.Holder}
	if rng.IntN(3) == 0 {
		for _, i := range rng.Perm(4)[:1+rng.IntN(3)] {
			if more := name(i); more != h.Name {
				req.More = append(req.More, request.Item{Name: more, Kind: throngKind(rng)})
			}
		}
	}
	if rng.IntN(3) == 0 {
		req.Holder = ""
	}
	if rng.IntN(2) == 0 {
		req.Wait = new(time.Duration(rng.IntN(2)) * time.Second)
	}
	return req
}

// inspectEnded checks that those that have ended hold nothing and wait for nothing from then on.
func (c *throng) inspectEnded(all []*client) {
	synctest.Wait()
	for _, s := range all {
		select {
		case <-s.Done():
			if in := s.Info(); in.Locks+in.Waiters+in.Asked+in.Weight+in.Watches > 0 {
				c.w.t.Errorf("an ended session has %+v", in)
			}
		default:
		}
	}
}

// inspect checks that nothing is left.
func (c *throng) inspect(all []*client, store *memstore.Store) {
	synctest.Wait()
	if r := c.w.b.Residue(); r != "" {
		c.w.t.Errorf("the broker keeps %s", r)
	}
	for _, s := range all {
		if r := s.Residue(); r != "" {
			c.w.t.Errorf("a session keeps %s", r)
		}
		select {
		case <-s.Done():
		default:
			c.w.t.Error("a session did not end")
		}
	}
	if held, _, err := store.List(context.Background(), "", "", 10); err != nil || len(held) > 0 {
		c.w.t.Errorf("left in the store: %+v, %v", held, err)
	}
}
