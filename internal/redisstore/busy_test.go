package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	// longestCalls is how long one script may keep Redis busy, and everybody else waiting: as long as a script that
	// makes so many calls of a command. That is 5 ms on a quiet machine of 2026.
	longestCalls = 12_500
)

// busyRounds is how often each is made at most. The shortest time counts: the others had to share a processor.
var busyRounds = tier.Pick(10, 40)

// longestScript is how long a script may take on this machine, as fast as it is now.
func longestScript(t testing.TB, srv *redistest.Server) time.Duration {
	t.Helper()
	shortest := time.Hour
	for range busyRounds {
		shortest = min(shortest, srv.LongestScript(func() {
			must(t, srv.Client().Eval(t.Context(), "for i = 1, ARGV[1] do redis.call('EXISTS', KEYS[1]) end return 1",
				[]string{"nothing"}, longestCalls).Err())
		}))
	}
	return shortest
}

// ofLongest is how long a script of a call, which is made ready before, keeps Redis busy: 1 is for as long as it may.
// It is tried until it is no longer than wanted.
func ofLongest(t testing.TB, srv *redistest.Server, want float64, ready func() (call func())) float64 {
	t.Helper()
	longest, got := longestScript(t, srv), 1e9
	for round := 0; round < busyRounds && got > want; round++ {
		must(t, srv.Client().FlushAll(t.Context()).Err())
		got = min(got, float64(srv.LongestScript(ready()))/float64(longest))
	}
	t.Logf("the longest script took %.2f times as long as the longest may, %v", got, longest)
	return got
}

// notForLong fails if a script of a call keeps Redis busy for much longer than it may. On a busy machine it waits for a
// processor more often than a short one; a quiet one has BenchmarkLongScripts.
func notForLong(t *testing.T, srv *redistest.Server, ready func() (call func())) {
	t.Helper()
	const spare = 4
	if got := ofLongest(t, srv, spare, ready); got > spare {
		t.Errorf("a script took %.2f times as long as it may, want at most %d", got, spare)
	}
}

// What one request can cost is bounded: its permits over all names, the holds of a holder, and what a script looks at.
func TestNoScriptKeepsRedisBusyForLong(t *testing.T) {
	srv := redistest.Start(t)
	for name, ready := range longScripts(t, srv) {
		t.Run(name, func(t *testing.T) { notForLong(t, srv, ready) })
	}
}

// BenchmarkLongScripts says how much of its bound each takes, which is to be at most 1.
func BenchmarkLongScripts(b *testing.B) {
	srv := redistest.Start(b)
	for name, ready := range longScripts(b, srv) {
		b.Run(name, func(b *testing.B) {
			got := ofLongest(b, srv, 1, ready)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(got, "of-the-bound")
			if got > 1 {
				b.Errorf("a script took %.2f times as long as it may", got)
			}
		})
	}
}

// longScripts are the calls that keep Redis busy for longest, each made ready when asked for.
func longScripts(t testing.TB, srv *redistest.Server) map[string]func() (call func()) {
	c := srv.Client()
	s := open(t, quick(srv))
	return map[string]func() (call func()){
		"1,000 permits": func() func() {
			cl := permitsClaim("n", "u:7", lock.MaxPermits, lock.MaxPermits)
			return func() {
				acquire(t, s, cl)
				acquire(t, s, cl)
				s.Renew(t.Context(), []lock.Renewal{renewal(cl, 0)}, func(int, error) {})
				release(t, s, kindReturn(lock.Semaphore, "n", "u:7", 0))
			}
		},
		"64 semaphores": func() func() {
			cs := make([]lock.Claim, 64)
			rs := make([]lock.Renewal, len(cs))
			for i := range cs {
				cs[i] = permitsClaim(fmt.Sprint("n", i), "u:7", lock.MaxPermits/64, lock.MaxPermits)
				rs[i] = renewal(cs[i], 0)
			}
			return func() {
				if _, err := s.AcquireAll(t.Context(), cs); err != nil {
					t.Error(err)
				}
				s.Renew(t.Context(), rs, func(int, error) {})
			}
		},
		"20,000 permits that have ended": func() func() {
			endedPermits(t, c, "n", 20_000)
			return func() {
				_, _ = lock.Await(t.Context(), s.StartAcquire, permitsClaim("n", "u:7", 1, 0))
				_, _ = s.ForceRelease(t.Context(), "n", lock.Semaphore)
			}
		},
		"128 readers with 100 holds each, as Redisson has them": func() func() {
			deepReaders(t, c, 128, 100)
			return func() {
				_, _ = lock.Await(t.Context(), s.StartAcquire, kindClaim(lock.Write, "n", "w"))
				_, _ = s.Look(t.Context(), "n")
				acquire(t, s, kindClaim(lock.Read, "n", "u:1"))
				release(t, s, kindReturn(lock.Read, "n", "u:1", 7))
				_, _ = s.ForceRelease(t.Context(), "n", lock.Read)
			}
		},
		"100 read holds that an older lockd counted to 100 renewed": func() func() {
			var rs []lock.Renewal
			for i := range 100 {
				rs = append(rs, lock.Renewal{
					Name: "n", Kind: lock.Read, Owner: whole(lock.Owner(fmt.Sprint("u:", i))), Fence: 7,
					TTL: lease,
				})
			}
			deepReaders(t, c, 100, 100)
			return func() { s.Renew(t.Context(), rs, func(int, error) {}) }
		},
		"500 of 40,000 fair waiters leave": func() func() {
			fairWaiters(t, c, "u:#", 40_000, 1e15)
			return func() { leaveEach(t, s, 80, 500) }
		},
		"16 of 100,000 fair waiters leave": func() func() {
			fairWaiters(t, c, "u:#", 100_000, 1e15)
			return func() { leaveEach(t, s, 6000, 16) }
		},
		"1,000 readers shown and forced": func() func() {
			deepReaders(t, c, 999, 1)
			return func() {
				hs, err := s.Holders(t.Context(), "n", 1000)
				if err != nil || len(hs) != 999 {
					t.Errorf("got %d holders, %v", len(hs), err)
				}
				_, _ = s.ForceRelease(t.Context(), "n", lock.Read)
			}
		},
		"64 names with 31 readers that have ended": func() func() {
			cs := make([]lock.Claim, 64)
			for i := range cs {
				cs[i] = kindClaim(lock.Write, fmt.Sprint("n", i), "u:w")
				endedReaders(t, c, cs[i].Name, 31)
			}
			return func() {
				_, _ = s.AcquireAll(t.Context(), cs)
			}
		},
		"5,000 dead fair waiters": func() func() {
			fairWaiters(t, c, "u:#", 5000, 1)
			return func() {
				_, _ = lock.Await(t.Context(), s.StartAcquire, fairClaim("n", "u:7"))
			}
		},
		"5,000 dead fair waiters without places": func() func() {
			fairWaiters(t, c, "u:#", 5000, 1)
			c.Del(t.Context(), layout.Places("n"))
			return func() {
				_, _ = lock.Await(t.Context(), s.StartAcquire, fairClaim("n", "u:7"))
			}
		},
		"5,000 dead fair waiters of Redisson": func() func() {
			fairWaiters(t, c, "u:", 5000, 1e15)
			return func() {
				_, _ = lock.Await(t.Context(), s.StartAcquire, fairClaim("n", "u:7")) // they are noted
				looksAgain(t, c)
				silentLonger(t, c, time.Minute)
				_, _ = lock.Await(t.Context(), s.StartAcquire, fairClaim("n", "u:7")) // and the first ones taken out
			}
		},
	}
}

func endedPermits(t testing.TB, c *redis.Client, name string, n int) {
	zs := make([]redis.Z, n)
	for i := range zs {
		zs[i] = redis.Z{Score: 1, Member: fmt.Sprintf("permit %09d", i)}
	}
	must(t, c.Set(t.Context(), name, 0, 0).Err())
	must(t, c.ZAdd(t.Context(), layout.PermitsOut(name), zs...).Err())
}

func deepReaders(t testing.TB, c *redis.Client, readers, holds int) {
	fields := []any{"mode", "read"}
	p := c.Pipeline()
	for r := range readers {
		owner := wholeID(fmt.Sprint("u:", r))
		fields = append(fields, owner, holds)
		for i := range holds {
			p.Set(t.Context(), fmt.Sprint(layout.HoldBase("n"), owner, ":rwlock_timeout:", i+1), 7, time.Hour)
		}
	}
	p.HSet(t.Context(), "n", fields...)
	p.PExpire(t.Context(), "n", time.Hour)
	_, err := p.Exec(t.Context())
	must(t, err)
}

// fairWaiters queue, until their deadlines: u:#0, u:#1 and so on. Without a # they are Redisson's, whom nobody hears.
func fairWaiters(t testing.TB, c *redis.Client, first string, n int, until float64) {
	const some, fill = 1000, `
		for i = ARGV[1], math.min(ARGV[1] + ARGV[2], ARGV[3]) - 1 do
			local owner = ARGV[4] .. i
			redis.call('RPUSH', KEYS[1], owner)
			redis.call('ZADD', KEYS[2], ARGV[5], owner)
			if string.find(owner, '#') then redis.call('ZADD', KEYS[3], ARGV[5], owner) end
		end
		return 1`
	for i := 0; i < n; i += some {
		must(t, c.Eval(t.Context(), fill, []string{layout.Queue("n"), layout.Timeouts("n"), layout.Places("n")}, i,
			some, n, wholeID(first), until).Err())
	}
}

// leaveEach has every so-many-th waiter leave, so many in all.
func leaveEach(t testing.TB, s *Store, every, n int) {
	owners := make([]lock.Owner, n)
	for i := range owners {
		owners[i] = whole(lock.Owner(fmt.Sprintf("u:#%d", i*every+every/2)))
	}
	must(t, s.Leave(t.Context(), "n", lock.Fair, owners))
}

// endedReaders have fields in a lock that lives, but no time left.
func endedReaders(t testing.TB, c *redis.Client, name string, readers int) {
	fields := []any{"mode", "read"}
	for r := range readers {
		fields = append(fields, wholeID(fmt.Sprint("u:", r)), 1)
	}
	must(t, c.HSet(t.Context(), name, fields...).Err())
	must(t, c.PExpire(t.Context(), name, time.Hour).Err())
}

var must = harness.Must // ends the test at an error
