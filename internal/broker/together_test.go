package broker_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// far makes each acquire take a round trip of a millisecond.
func (w *world) far() {
	w.store.inOrder("Acquire", late(time.Millisecond))
	w.store.inOrder("AcquireAll", late(time.Millisecond))
}

const (
	crowd  = 25
	perOne = 20
)

// crowdRequests are the ways to ask for a shared lock, by many at once. Each has room for all.
func crowdRequests() map[string]func(i int) request.Acquire {
	pool := request.Acquire{Name: "pool", Kind: lock.Semaphore, Limit: crowd * perOne}
	doc := request.Acquire{Name: "doc", Kind: lock.Read}
	own := func(i int) request.Item { return request.Item{Name: name(i), Kind: lock.Exclusive} }
	return map[string]func(i int) request.Acquire{
		"permits": func(int) request.Acquire { return pool },
		"readers": func(int) request.Acquire { return doc },
		"both": func(int) request.Acquire {
			req := pool
			req.More = []request.Item{{Name: "doc", Kind: lock.Read}}
			return req
		},
		"permits and an own name": func(i int) request.Acquire {
			req := pool
			req.More = []request.Item{own(i)}
			return req
		},
		"an own name and permits": func(i int) request.Acquire {
			o := own(i)
			return request.Acquire{Name: o.Name, Kind: o.Kind, More: []request.Item{
				{Name: "pool", Kind: lock.Semaphore, Limit: crowd * perOne},
			}}
		},
	}
}

// TestManyAtOnceAreGrantedWhileThereIsRoom asks five hundred times at one moment, with and without a wait.
func TestManyAtOnceAreGrantedWhileThereIsRoom(t *testing.T) {
	for what, req := range crowdRequests() {
		for _, wait := range []*time.Duration{new(time.Duration), new(time.Minute), nil} {
			t.Run(fmt.Sprint(what, " ", wait != nil && *wait == 0), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.far()
					granted, _ := w.crowd([]*world{w}, func(i int) request.Acquire {
						r := req(i)
						r.Wait = wait
						return r
					})
					if granted != crowd*perOne {
						t.Errorf("%d of %d are granted", granted, crowd*perOne)
					}
				})
			})
		}
	}
}

// TestManyUnaryCallsAtOnceAreGrantedWhileThereIsRoom is the same without sessions.
func TestManyUnaryCallsAtOnceAreGrantedWhileThereIsRoom(t *testing.T) {
	for _, k := range []lock.Kind{lock.Read, lock.Semaphore} {
		for _, wait := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(k, " ", wait), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.far()
					req := request.Once{Name: "pool", Kind: k, Wait: &wait, Lease: time.Minute}
					if k == lock.Semaphore {
						req.Limit = crowd * perOne
					}
					var calls sync.WaitGroup
					var granted atomic.Int64
					start := time.Now()
					for range crowd * perOne {
						calls.Go(func() {
							if _, refused, err := w.b.AcquireOnce(context.Background(), req); refused == nil && err == nil {
								granted.Add(1)
							}
						})
					}
					calls.Wait()
					if took := time.Since(start); granted.Load() != crowd*perOne || took > 5*time.Millisecond {
						t.Errorf("%d of %d are granted, after %v", granted.Load(), crowd*perOne, took)
					}
				})
			})
		}
	}
}

// TestOneOfManyTriesForAnExclusiveNameIsGranted is the same for what has room for one, over two replicas.
func TestOneOfManyTriesForAnExclusiveNameIsGranted(t *testing.T) {
	for what, req := range map[string]request.Acquire{
		"exclusive": of("one", lock.Exclusive), "fair": of("one", lock.Fair), "write": of("one", lock.Write),
		"several": allOf(lock.Exclusive, "a", "b", "c"),
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.far()
				there := w.replica()
				granted, answered := w.crowd([]*world{w, there}, func(int) request.Acquire {
					req.Wait = new(time.Duration)
					return req
				})
				if granted != 1 || answered != crowd*perOne {
					t.Errorf("%d are granted and %d answered, want 1 and %d", granted, answered, crowd*perOne)
				}
			})
		})
	}
}

// crowd makes five hundred requests at one moment, and says what became of them soon after.
func (w *world) crowd(at []*world, req func(i int) request.Acquire) (granted, answered int) {
	clients := make([]*client, crowd)
	for i := range clients {
		clients[i] = at[i%len(at)].open()
		for j := range perOne {
			clients[i].acquire(req(i*perOne + j))
		}
	}
	time.Sleep(5 * time.Millisecond)
	for _, c := range clients {
		for _, e := range c.events() {
			answered++
			if isGranted(e) {
				granted++
			}
		}
	}
	return granted, answered
}

// TestNobodyPassesByOneThatWasRefused has small requests come all the time while one for all permits waits, and readers
// while a writer does.
func TestNobodyPassesByOneThatWasRefused(t *testing.T) {
	for _, k := range []lock.Kind{lock.Semaphore, lock.Read} {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.far()
				small := request.Acquire{Name: "pool", Kind: k}
				big := request.Acquire{Name: "pool", Kind: lock.Write}
				if k == lock.Semaphore {
					small.Limit, big = 10, request.Acquire{Name: "pool", Kind: k, Limit: 10, Permits: 10}
				}
				c, waits := w.alive(), w.alive()
				var held []session.Hold
				overtook := 0
				step := func(asked bool) {
					time.Sleep(time.Millisecond)
					synctest.Wait()
					for _, e := range c.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
						if g, ok := e.(session.Granted); ok {
							held = append(held, g.Hold)
							if asked {
								overtook++
							}
						}
					}
					if len(held) > 3 {
						c.Release(c.id(), held[0])
						held = held[1:]
					}
				}
				for range 20 {
					c.acquire(small)
					step(false)
				}
				waits.acquire(big)
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				overtook = 0
				for i := range 40 {
					req := small
					if i%2 == 0 {
						req.Wait = new(time.Duration)
					}
					c.acquire(req)
					step(true)
				}
				if overtook > 1 { // the one under way
					t.Errorf("%d passed by", overtook)
				}
				for _, h := range held {
					c.Release(c.id(), h)
				}
				time.Sleep(10 * time.Millisecond)
				events := waits.events()
				if len(events) == 0 || !isGranted(events[len(events)-1]) {
					t.Errorf("got %v, want a grant at last", events)
				}
			})
		})
	}
}
