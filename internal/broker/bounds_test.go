package broker_test

import (
	"errors"
	"testing"
	"time"

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
		c.acquire(several(200))
		one[session.Granted](c)
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
