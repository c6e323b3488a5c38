package broker_test

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A lock that is named like a helper key of another one would overwrite that one's fence, queue or permits.
func TestEveryVerbRefusesNamesThatAreHelperKeys(t *testing.T) {
	cfg := testConfig()
	cfg.KeyPrefix = "redisson_"
	inWorldWith(t, cfg, func(w *world) {
		c := w.alive()
		for _, name := range []string{
			"redisson_lock_token:{victim}", "lockd_lock_queue:{victim}", "lockd:control", "{victim}:timeout",
			"{victim}:o:rwlock_timeout:1", "{victim}:o:write:lockd_fence", "lock_token:{victim}", "sc:{victim}",
		} {
			for verb, err := range w.refusals(c, name) {
				var invalid *lock.InvalidError
				if !errors.As(err, &invalid) || invalid.Reason != lock.ReasonReserved {
					t.Errorf("%s %q: got %v, want %s", verb, name, err, lock.ReasonReserved)
				}
			}
		}
		for _, name := range []string{"victim:timeout", "redisson", "lockd", "lock", "{victim}:timeouts"} {
			c.release(c.take(name).Hold)
		}
	})
}

// refusals are the errors of all verbs for a name.
func (w *world) refusals(c *client, name string) map[string]error {
	told := func(begin func(id uint64)) error {
		begin(c.id())
		return one[session.Failed](c).Err
	}
	errs := make(map[string]error)
	for _, k := range lock.Kinds() {
		errs["acquire "+k.String()] = told(func(id uint64) { c.Acquire(id, request.Acquire{Name: name, Kind: k}) })
		h := session.Hold{Name: name, Kind: k}
		errs["release "+k.String()] = told(func(id uint64) { c.Release(id, h) })
		errs["extend "+k.String()] = told(func(id uint64) { c.Extend(id, request.Extend{Hold: h, Lease: new(time.Second)}) })
		_, errs["force "+k.String()] = w.b.ForceRelease(w.t.Context(), name, k)
		_, _, errs["acquire once "+k.String()] = w.b.AcquireOnce(w.t.Context(), request.Once{
			Name: name, Kind: k, Lease: time.Second,
		})
	}
	errs["acquire several"] = told(func(id uint64) {
		c.Acquire(id, request.Acquire{
			Name: "job", Kind: lock.Exclusive, More: []request.Item{{Name: name, Kind: lock.Exclusive}},
		})
	})
	errs["watch"] = told(func(id uint64) { c.Watch(id, name) })
	errs["unwatch"] = told(func(id uint64) { c.Unwatch(id, name) })
	errs["look"] = told(func(id uint64) { c.Look(id, name) })
	errs["limit"] = told(func(id uint64) { c.SetLimit(id, request.SetLimit{Name: name, Limit: 1}) })
	_, errs["limit once"] = w.b.SetLimit(request.SetLimit{Name: name, Limit: 1})
	_, errs["lock"] = w.b.Lock(w.t.Context(), name)
	_, errs["waiters"] = w.b.Inspect(w.t.Context(), name, 1, 1)
	return errs
}

// What one request may cost the store is bounded over all of its names.
func TestPermitsOfARequestAreBoundedOverAllNames(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		several := func(n uint32) request.Acquire {
			return request.Acquire{
				Name: "a", Kind: lock.Semaphore, Permits: 400, Limit: 1000, More: []request.Item{
					{Name: "b", Kind: lock.Semaphore, Permits: 400, Limit: 1000},
					{Name: "c", Kind: lock.Exclusive},
					{Name: "d", Kind: lock.Semaphore, Permits: n, Limit: 1000},
				},
			}
		}
		c.acquire(several(201))
		c.quota("permits", lock.MaxPermits)
		c.takeAs(several(200))
	})
}

// quota takes the only event, which must say that a bound is reached.
func (c *client) quota(subject string, limit int) {
	c.t.Helper()
	err := one[session.Failed](c).Err
	var q *session.QuotaError
	if !errors.As(err, &q) || q.Subject != subject || q.Limit != limit {
		c.t.Errorf("got %v, want at most %d %s", err, limit, subject)
	}
}

// answerTime is that of testConfig.
const answerTime = 1500 * time.Millisecond

// TestAReleaseDoesNotWaitForAllThatWasAskedBefore has a hundred extensions and nested requests under way for one lease
// while the store is silent for a second at each call.
func TestAReleaseDoesNotWaitForAllThatWasAskedBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		req := holder("job", lock.Exclusive)
		req.Lease = new(time.Hour)
		g := c.takeAs(req)
		for _, verb := range []string{"Acquire", "Extend", "Release"} {
			w.store.on(verb, func(func() error) error { time.Sleep(time.Second); return errUnknown })
		}
		for range 50 {
			c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(time.Hour)})
			c.acquire(req)
		}
		c.Release(c.id(), g.Hold)
		time.Sleep(answerTime + 6*time.Second)
		events := c.events()
		if len(events) != 101 {
			t.Fatalf("got %d answers, want 101", len(events))
		}
		if f, ok := events[100].(session.Failed); !ok || !errors.Is(f.Err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %#v, want an unknown outcome", events[100])
		}
		w.store.well()
		time.Sleep(20 * time.Second)
		w.free("job")
	})
}

// A short session TTL means many renewals, so such a session may hold fewer locks.
func TestASessionHoldsAsManyLocksAsItsTTLLeavesTimeToRenew(t *testing.T) {
	inWorld(t, func(w *world) {
		c, ttl := w.openWith(session.OpenRequest{TTL: 2 * time.Second}), 2000
		if c.MaxLocks() != ttl {
			t.Errorf("%d locks are announced, want %d", c.MaxLocks(), ttl)
		}
		for i := range ttl {
			c.acquire(request.Acquire{Name: name(i)})
		}
		events := c.events()
		for _, e := range events {
			if _, ok := e.(session.Granted); !ok {
				t.Fatalf("got %#v, want all to be granted", e)
			}
		}
		c.acquire(request.Acquire{Name: "one more"})
		c.full(ttl)
		c.release(events[0].(session.Granted).Hold)
		c.acquire(request.Acquire{Name: "shared", Kind: lock.Read}) // which is twice as much to renew
		c.full(ttl)
		c.take("one more")

		if usual := w.open(); usual.MaxLocks() != testConfig().Limits.LocksPerSession {
			t.Errorf("a session with the usual TTL may hold %d locks, want what is configured", usual.MaxLocks())
		}
	})
}

// full takes the only event, which must be that this limit is reached.
func (c *client) full(limit int) {
	c.t.Helper()
	var quota *session.QuotaError
	if got := one[session.Failed](c); !errors.As(got.Err, &quota) || quota.Subject != "locks" || quota.Limit != limit {
		c.t.Fatalf("got %v, want that the limit of %d locks is reached", got.Err, limit)
	}
}

// What one request costs does not grow with what its session holds and waits for, nor with what others wait for.
func TestManyHoldsAndWaitersCostOneRequestLittle(t *testing.T) {
	inWorld(t, func(w *world) {
		other, c := w.of("neighbour"), w.of("attacker")
		other.take("held")
		names := make([]string, 7000)
		for i := range names {
			names[i] = name(i)
			if c.acquire(request.Acquire{Name: "held", Holder: "h"}); i < 2500 {
				c.acquire(request.Acquire{Name: "own " + name(i)})
			}
			if i%100 == 0 {
				c.events()
			}
		}
		c.events()
		for what, do := range map[string]func(round int){
			"a list":  func(int) { c.ListHolds(c.id(), session.Page{Size: 1}); one[session.HoldList](c) },
			"a grant": func(n int) { c.takeAs(asHolder(allOf(lock.Exclusive, names[16*n:16*(n+1)]...))) },
			"waiters": func(int) { _, _, _ = w.b.WaitersEverywhere(w.t.Context(), inspect.Filter{Prefix: "he"}, 1) },
		} {
			least := uint64(math.MaxUint64) // what else allocates, such as a pool that was emptied, does not do so each time
			for round := range 3 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				do(round)
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			if least > 100<<10 {
				t.Errorf("%s allocates %d bytes", what, least)
			}
		}
		w.b.Tenants().Spend("attacker", time.Second) // what it has ahead, and more
		c.Owes()
		c.ListHolds(c.id(), session.Page{Size: 1})
		one[session.HoldList](c)
		if c.Owes() == 0 {
			t.Error("that many leases are looked at is not paid for")
		}
	})
}
