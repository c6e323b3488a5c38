package redisstore

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/lockd-io/lockd/internal/redistest"
)

// What Redisson relies on, key by key.
func TestALockLooksAsRedissonExpects(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]struct{ token, channel string }{
		"n":      {"redisson_lock_token:{n}", "redisson_lock__channel:{n}"},
		"{t}:n":  {"redisson_lock_token:{t}:n", "redisson_lock__channel:{t}:n"},
		"{n}":    {"lockd_lock_token:{n}", "redisson_lock__channel:{n}"},
		"a b ä*": {"redisson_lock_token:{a b ä*}", "redisson_lock__channel:{a b ä*}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, s, c := begin(t)
			sub := c.Subscribe(t.Context(), keys.channel)
			defer sub.Close()
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}

			f := acquire(t, s, claim(name, "uuid:7")).Fence
			two := claim(name, "uuid:7")
			two.Count, two.Fence = 2, f
			acquire(t, s, two)
			hash, err := c.HGetAll(t.Context(), name).Result()
			if want := map[string]string{wholeID("uuid:7"): "2"}; err != nil || !maps.Equal(hash, want) {
				t.Errorf("got hash %v, %v, want %v", hash, err, want)
			}
			if d := c.PTTL(t.Context(), name).Val(); d > lease || d < lease-5*time.Second {
				t.Errorf("got TTL %v, want about %v", d, lease)
			}
			if got := c.Get(t.Context(), keys.token).Val(); got != script.Decimal(f) {
				t.Errorf("got token %q, want %d", got, f)
			}
			if d := c.PTTL(t.Context(), keys.token).Val(); d < defaultFenceTTL-time.Minute {
				t.Errorf("got TTL %v of the token, want about %v", d, defaultFenceTTL)
			}

			res, err := s.Release(t.Context(), giveBack(name, "uuid:7", f))
			if err != nil || res.Listeners != 1 {
				t.Errorf("got %+v, %v, want one listener", res, err)
			}
			msg, err := sub.ReceiveMessage(t.Context())
			if err != nil || msg.Payload != "0" {
				t.Errorf("got message %v, %v, want 0", msg, err)
			}
			if all := lockKeys(t, c); len(all) != 1 || all[0] != keys.token {
				t.Errorf("got keys %q, want only the token", all)
			}
		})
	}
}

func TestLocksOfRedissonAreRespected(t *testing.T) {
	_, s, c := begin(t)
	ctx := t.Context()
	for name, do := range map[string]struct {
		set   []any
		pttl  time.Duration
		by    lock.Owner
		after time.Duration
	}{
		"plain":       {[]any{wholeID("uuid:1"), 2}, time.Minute, "uuid:1", time.Minute},
		"without TTL": {[]any{wholeID("uuid:1"), 1}, 0, "uuid:1", lock.NoTTL},
		"one reader":  {[]any{"mode", "read", wholeID("uuid:1"), 1}, time.Minute, "uuid:1", time.Minute},
		"two readers": {[]any{"mode", "read", wholeID("uuid:1"), 1, wholeID("uuid:2"), 1}, time.Minute, "", time.Minute},
		"our reader":  {[]any{"mode", "read", wholeID("o"), 1}, time.Minute, "o", time.Minute},
	} {
		must(t, c.HSet(ctx, name, do.set...).Err())
		if do.pttl > 0 {
			c.PExpire(ctx, name, do.pttl)
		}
		before := c.HGetAll(ctx, name).Val()
		_, err := s.Acquire(ctx, claim(name, "o"))
		held, ok := errors.AsType[*lock.HeldError](err)
		if !ok || held.HeldBy != whole(do.by) || held.RetryAfter > do.after || held.RetryAfter < do.after-5*time.Second {
			t.Errorf("%s: got %v, want it held by %q for %v", name, err, do.by, do.after)
		}
		_, err = s.Release(ctx, giveBack(name, "o", 0))
		wantErr(t, err, lock.ErrNotHeld)
		if after := c.HGetAll(ctx, name).Val(); !maps.Equal(before, after) {
			t.Errorf("%s: got %v, want it as it was, %v", name, after, before)
		}
	}
	c.Set(ctx, "{one reader}:"+wholeID("uuid:1")+":rwlock_timeout:1", 1, time.Minute) // as a reader of Redisson has it
	_, err := s.ForceRelease(ctx, "one reader", lock.Exclusive)
	wantErr(t, err, lock.ErrKindMismatch)
	for name, want := range map[string]lock.Kind{"one reader": lock.Read, "plain": lock.Exclusive} {
		if st, err := s.Look(ctx, name); err != nil || st.Kind != want || st.Owner != whole("uuid:1") {
			t.Errorf("%s: got %+v, %v, want kind %v", name, st, err, want)
		}
	}
}

func TestFencesGoOnFromThoseOfRedisson(t *testing.T) {
	_, s, c := begin(t)
	const far = 8_000_000_000_000_000 // later than now, in µs
	must(t, c.Set(t.Context(), layout.Token("n"), int64(far), 0).Err())
	for i := range 3 {
		if f := acquire(t, s, claim("n", "o")).Fence; f != far+1+lock.Fence(i) {
			t.Errorf("got fence %d, want %d", f, far+1+i)
		}
		if n, err := s.ForceRelease(t.Context(), "n", lock.Exclusive); err != nil || !n {
			t.Fatal(n, err)
		}
	}
	c.Incr(t.Context(), layout.Token("n")) // as an RFencedLock does
	if f := acquire(t, s, claim("n", "o")).Fence; f != far+5 {
		t.Errorf("got fence %d, want %d", f, far+5)
	}
}

func TestWhatIsNoFenceIsNotReplaced(t *testing.T) {
	_, s, c := begin(t)
	for _, text := range []string{"x", "", "-1", "1.5", "1e9", "nan", "9007199254740993", strings.Repeat("9", 400)} {
		must(t, c.Set(t.Context(), layout.Token("n"), text, 0).Err())
		_, err := s.Acquire(t.Context(), claim("n", "o"))
		wantErr(t, err, lock.ErrKindMismatch)
		wantHeld(t, s, "n", false)
	}
	c.Del(t.Context(), layout.Token("n"))
	c.RPush(t.Context(), layout.Token("n"), "x")
	_, err := s.Acquire(t.Context(), claim("n", "o"))
	wantErr(t, err, lock.ErrKindMismatch)
}

func TestAHoldOutlivesItsFenceKey(t *testing.T) {
	_, s, c := begin(t)
	forget := func() { c.Del(t.Context(), layout.Token("n")) }
	f := acquire(t, s, claim("n", "o")).Fence

	forget()
	wantErr(t, renewOne(t.Context(), s, "n", "o", f), nil)
	two := claim("n", "o")
	two.Count, two.Fence = 2, f
	if got := acquire(t, s, two).Fence; got != f {
		t.Errorf("the nested acquisition got fence %d, want %d", got, f)
	}
	if got := c.Get(t.Context(), layout.Token("n")).Val(); got != script.Decimal(f) {
		t.Errorf("the fence key is %q, want %d again", got, f)
	}

	forget()
	over := handingOver(giveBack("n", "o", f), "successor")
	res, err := s.Release(t.Context(), over)
	if err != nil || res.HandedOver <= f {
		t.Errorf("the hand-over gave %+v, %v, want a fence above %d", res, err, f)
	}

	forget()
	again, err := s.Release(t.Context(), over)
	if err != nil || again.HandedOver <= f {
		t.Errorf("the repeated hand-over gave %+v, %v, want a fence above %d", again, err, f)
	}

	forget()
	once := acquire(t, s, claim("n", "successor")).Fence
	if twice := acquire(t, s, claim("n", "successor")).Fence; once <= f || once != twice {
		t.Errorf("repeated acquisitions got fences %d and %d, want one above %d", once, twice, f)
	}

	forget()
	_, err = s.Release(t.Context(), giveBack("n", "successor", once))
	wantErr(t, err, nil)
}

func TestOtherThingsInAChunkDoNotSpoilIt(t *testing.T) {
	_, s, c := begin(t)
	var rs []lock.Renewal
	for _, name := range []string{"string", "fence", "good"} {
		f := acquire(t, s, claim(name, "o")).Fence
		rs = append(rs, lock.Renewal{Name: name, Kind: lock.Exclusive, Owner: whole("o"), Fence: f, TTL: lease})
	}
	c.Set(t.Context(), "string", "x", 0)
	c.Del(t.Context(), layout.Token("fence"))
	c.RPush(t.Context(), layout.Token("fence"), "x")
	s.Renew(t.Context(), rs, func(i int, err error) {
		wantErr(t, err, []error{lock.ErrNotHeld, nil, nil}[i])
	})
}

// After each grant, of whatever kind, the fence key lives for half of its time at least.
func TestAFenceKeyLivesForHalfOfItsTimeAfterEachGrant(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.FenceTTL = 600 * time.Millisecond
	s, c := open(t, cfg), srv.Client()
	check := func(what string, since time.Time) {
		t.Helper()
		left := c.PTTL(t.Context(), layout.Token("n")).Val()
		if left+time.Since(since)+5*time.Millisecond < cfg.FenceTTL/2 { // Redis counts whole milliseconds
			t.Errorf("after %s the fence key lives for %v, want %v at least", what, left, cfg.FenceTTL/2)
		}
	}
	kinds := []lock.Kind{lock.Exclusive, lock.Exclusive, lock.Fair, lock.Write}
	for i, begun := 0, time.Now(); time.Since(begun) < 4*cfg.FenceTTL && !t.Failed(); i++ {
		k := kinds[i%len(kinds)]
		at := time.Now()
		g := acquire(t, s, kindClaim(k, "n", "o"))
		check("a grant", at)
		r := handingOver(kindReturn(k, "n", "o", g.Fence), "successor")
		at = time.Now()
		res, err := s.Release(t.Context(), r)
		must(t, err)
		check("a hand-over", at)
		release(t, s, kindReturn(k, "n", "successor", res.HandedOver))
	}
}

func TestAFenceKeyThatNeverEndsIsLeftSo(t *testing.T) {
	_, s, c := begin(t)
	ctx := t.Context()
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		c.Set(ctx, layout.Token("n"), 41, 0) // as an RFencedLock makes it
		claim := lock.Claim{Name: "n", Kind: k, Owner: whole("o"), Count: 1, TTL: time.Minute}
		for range 2 {
			g, err := s.Acquire(ctx, claim)
			if err != nil || g.Fence <= 41 {
				t.Fatalf("%v: got %+v, %v", k, g, err)
			}
			s.Renew(ctx, []lock.Renewal{{Name: "n", Kind: k, Owner: whole("o"), TTL: time.Minute}}, func(_ int, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if ttl := c.PTTL(ctx, layout.Token("n")).Val(); ttl != -1 {
				t.Errorf("%v: the fence key ends in %v", k, ttl)
			}
		}
		if _, err := s.Release(ctx, lock.Return{Name: "n", Kind: k, Owner: whole("o")}); err != nil {
			t.Error(err)
		}
	}
}
