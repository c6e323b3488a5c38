package redisstore

import (
	"crypto/sha1" //nolint:gosec // as the script
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

func permitsClaim(name string, o lock.Owner, n, limit uint32) lock.Claim {
	c := kindClaim(lock.Semaphore, name, o)
	c.Permits, c.Limit = n, limit
	return c
}

func TestPermitsLookAsRedissonExpects(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]string{
		"n": "{n}:timeout", "{t}:n": "{t}:n:timeout",
		"{n}": "lockd_odd:{n}:timeout",
	} {
		t.Run(name, func(t *testing.T) {
			_, s, c := begin(t)
			ctx := t.Context()
			acquire(t, s, permitsClaim(name, "u:7", 2, 5))
			if got := c.Get(ctx, name).Val(); got != "3" {
				t.Errorf("got %q available, want 3", got)
			}
			near(t, "TTL", c.PTTL(ctx, name).Val(), lease+lock.LimitLives)
			near(t, "TTL of the permits", c.PTTL(ctx, out).Val(), lease+lock.LimitLives)
			for i := range 2 {
				sum := sha1.Sum([]byte(whole("u:7"))) //nolint:gosec // as above
				id := append(sum[:12:12], 0, 0, 0, byte(i+1))
				near(t, "permit", scoreIn(t, c, out, string(id)), lease)
			}
			if n := c.ZCard(ctx, out).Val(); n != 2 {
				t.Errorf("got %d permits out, want 2", n)
			}
			sub := subscribe(t, c, redissonChannel("redisson_sc", name))
			if r := release(t, s, kindReturn(lock.Semaphore, name, "u:7", 0)); r.Listeners != 1 {
				t.Errorf("got %+v, want one listener", r)
			}
			wantMessage(t, sub, "5")
			if got := c.Get(ctx, name).Val(); got != "5" {
				t.Errorf("got %q available, want 5", got)
			}
		})
	}
}

func TestASemaphoreOfRedissonKeepsItsWays(t *testing.T) {
	_, s, c := begin(t)
	ctx := t.Context()
	past, next := float64(time.Now().Add(-time.Second).UnixMilli()), float64(time.Now().Add(time.Hour).UnixMilli())
	c.Set(ctx, "n", 0, 0)
	c.ZAdd(ctx, "{n}:timeout", redis.Z{Score: past, Member: "aaaaaaaaaaaaaaaa"},
		redis.Z{Score: next, Member: "bbbbbbbbbbbbbbbb"}, redis.Z{Score: 922337203685477, Member: "cccccccccccccccc"})
	sub := subscribe(t, c, "redisson_sc:{n}")
	acquire(t, s, permitsClaim("n", "o", 1, 0)) // the one that ended
	wantMessage(t, sub, "1")
	if d := c.PTTL(ctx, "n").Val(); d != -1 {
		t.Errorf("got TTL %v, want none, as Redisson made it", d)
	}
	near(t, "retry", refused(t, s, permitsClaim("n", "o2", 1, 3)).RetryAfter, lease)
	release(t, s, kindReturn(lock.Semaphore, "n", "o", 0))
	c.ZRem(ctx, "{n}:timeout", "bbbbbbbbbbbbbbbb")
	acquire(t, s, permitsClaim("n", "o", 1, 2))
	release(t, s, kindReturn(lock.Semaphore, "n", "o", 0))

	c.Set(ctx, "n", 0, 0)
	if h := refused(t, s, permitsClaim("n", "o", 1, 0)); h.RetryAfter != lock.NoTTL {
		t.Errorf("got %+v, want no time: that permit has no end", h)
	}
	_, err := lock.Await(ctx, s.StartAcquire, permitsClaim("n", "o", 2, 0))
	if bad, ok := errors.AsType[*lock.InvalidError](err); !ok || bad.Reason != lock.ReasonPermits {
		t.Errorf("got %v, want that there never are as many", err)
	}
	st, err := s.Look(ctx, "n")
	if err != nil || st.Kind != lock.Semaphore || !st.Held || st.Holders != 1 || st.Limit != 1 || st.TTL != lock.NoTTL {
		t.Errorf("got %+v, %v", st, err)
	}
	held, err := s.ForceRelease(ctx, "n", lock.Semaphore)
	if err != nil || !held || c.Get(ctx, "n").Val() != "1" {
		t.Errorf("got %v, %v, want one permit back", held, err)
	}
}

// Redis counts on from no such number. A script that finds out after its first write would leave half of it.
func TestANumberThatRedisDoesNotCountOnFromIsNoNumberOfPermits(t *testing.T) {
	t.Parallel()
	s, _, c := gated(t)
	for _, text := range []string{"007", "-0", "-07", "+1", " 1"} {
		must(t, c.FlushAll(t.Context()).Err())
		acquire(t, s, permitsClaim("n", "a", 1, 2))
		must(t, c.Set(t.Context(), "n", text, time.Hour).Err())
		wantErr(t, attempt(t, s, permitsClaim("n", "b", 1, 0)), lock.ErrKindMismatch)
		back := kindReturn(lock.Semaphore, "n", "a", 0)
		back.Permits = 1
		_, err := lock.Await(t.Context(), s.StartRelease, back)
		wantErr(t, err, lock.ErrKindMismatch)
		n, now := c.ZCard(t.Context(), layout.PermitsOut("n")).Val(), c.Get(t.Context(), "n").Val()
		if n != 1 || now != text {
			t.Errorf("%q became %q, and %d permits are out", text, now, n)
		}
	}
}
