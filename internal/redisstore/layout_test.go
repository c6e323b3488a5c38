package redisstore

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
			sub := subscribe(t, c, keys.channel)
			f := acquire(t, s, claim(name, "uuid:7")).Fence
			acquire(t, s, claim(name, "uuid:7"))
			wantHash(t, c, name, map[string]string{"uuid:7": "1"})
			near(t, "lock", c.PTTL(t.Context(), name).Val(), lease)
			if got := c.Get(t.Context(), keys.token).Val(); got != script.Decimal(f) {
				t.Errorf("got token %q, want %d", got, f)
			}
			near(t, "token", c.PTTL(t.Context(), keys.token).Val(), defaultFenceTTL)

			if res := release(t, s, releaseOf(name, "uuid:7", f)); res.Listeners != 1 {
				t.Errorf("got %+v, want one listener", res)
			}
			wantMessage(t, sub, "0")
			if all := lockKeys(t, c); len(all) != 1 || all[0] != keys.token {
				t.Errorf("got keys %q, want only the token", all)
			}
		})
	}
}

func TestLocksOfRedissonAreRespected(t *testing.T) {
	_, s, c := begin(t)
	ctx := t.Context()
	alone, all := kinds[:1], kinds[:4] // no permits
	for name, row := range map[string]struct {
		fields  []any
		ttl     time.Duration
		kind    lock.Kind // as which it is seen
		by      lock.Owner
		holders uint32
		refuses []lock.Kind
	}{
		"plain":       {[]any{wholeID("r:1"), 2}, lease, lock.Exclusive, "r:1", 1, all},
		"without TTL": {[]any{wholeID("r:1"), 1}, lock.NoTTL, lock.Exclusive, "r:1", 1, alone},
		"one reader":  {[]any{"mode", "read", wholeID("r:1"), 1}, lease, lock.Read, "r:1", 1, alone},
		"two readers": {[]any{"mode", "read", wholeID("r:1"), 1, wholeID("r:2"), 1}, lease, lock.Read, "", 2, alone},
		"our reader":  {[]any{"mode", "read", wholeID("o"), 1}, lease, lock.Read, "o", 1, alone},
		"a writer":    {[]any{"mode", "write", wholeID("r:1:write"), 1}, lease, lock.Write, "r:1", 1, all},
	} {
		must(t, c.HSet(ctx, name, row.fields...).Err())
		for i := 0; row.kind == lock.Read && i < len(row.fields); i += 2 { // as a reader has it
			c.Set(ctx, fmt.Sprint("{", name, "}:", row.fields[i], ":rwlock_timeout:1"), 1, lease)
		}
		if row.ttl > 0 {
			c.PExpire(ctx, name, row.ttl)
		}
		before := c.HGetAll(ctx, name).Val()
		for _, kind := range row.refuses {
			h := refused(t, s, kindClaim(kind, name, "o"))
			if h.HeldBy != whole(row.by) || h.RetryAfter > row.ttl || h.RetryAfter < row.ttl-5*time.Second {
				t.Errorf("%s as %v: got %+v, want it held by %q for %v", name, kind, h, row.by, row.ttl)
			}
			_, err := lock.Await(ctx, s.StartRelease, kindReturn(kind, name, "o", 0))
			wantErr(t, err, lock.ErrNotHeld)
		}
		if st, err := s.Look(ctx, name); err != nil || st.Kind != row.kind || st.Holders != row.holders ||
			row.by != "" && st.Owner != whole(row.by) {
			t.Errorf("%s: got %+v, %v, want %v by %d, %q", name, st, err, row.kind, row.holders, row.by)
		}
		for _, kind := range all {
			if kind == row.kind || kind == lock.Fair && row.kind == lock.Exclusive {
				continue
			}
			held, err := s.ForceRelease(ctx, name, kind)
			if held || err != nil != (kind <= lock.Fair || row.kind == lock.Exclusive) {
				t.Errorf("%s forced as %v: got %v, %v", name, kind, held, err)
			}
		}
		if after := c.HGetAll(ctx, name).Val(); !maps.Equal(before, after) {
			t.Errorf("%s: got %v, want it as it was, %v", name, after, before)
		}
	}
}

// An older lockd counted the holds of an owner in Redis, and had a key for each hold of a reader. They are one hold,
// which lasts as long as the longest, and ends with its time or when its owner releases it.
func TestHoldsThatAnOlderVersionCountedAreHolds(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds[:4] {
		t.Run(kind.String(), func(t *testing.T) {
			_, s, c := begin(t)
			held, other := kindClaim(kind, "n", "u:7#1"), kindClaim(lock.Write, "n", "u:8#1")
			if kind != lock.Read {
				other.Kind = kind
			}
			f := countedHold(t, s, c, held)
			if st, err := s.Look(t.Context(), "n"); err != nil || !st.Held || st.Count != 3 || st.TTL <= lease {
				t.Errorf("got %+v, %v, want it held three times over", st, err)
			}
			_ = refused(t, s, other)
			wantErr(t, renewing(t, s, renewal(held, f)), nil)
			if again := acquire(t, s, held); again.Fence != f {
				t.Errorf("acquired again it has fence %d, want %d", again.Fence, f)
			}
			near(t, "lock", c.PTTL(t.Context(), "n").Val(), 2*lease)
			release(t, s, kindReturn(kind, "n", "u:7#1", f))
			onlyTheToken := func() error {
				if all := lockKeys(t, c); len(all) != 1 || all[0] != layout.Token("n") {
					return fmt.Errorf("got keys %q, want only the token", all)
				}
				return nil
			}
			must(t, onlyTheToken())

			r := renewal(held, countedHold(t, s, c, held))
			r.TTL = 20 * time.Millisecond
			must(t, s.Shorten(t.Context(), r))
			until(t, "ended", onlyTheToken)
			acquire(t, s, other)
		})
	}
}

// countedHold is a hold as an older lockd had it that was taken three times, the last time for longer.
func countedHold(t *testing.T, s *Store, c *redis.Client, held lock.Claim) lock.Fence {
	t.Helper()
	f := acquire(t, s, held).Fence
	field := string(held.Owner)
	if held.Kind == lock.Write {
		field += ":write"
	}
	must(t, c.HSet(t.Context(), held.Name, field, 3).Err())
	must(t, c.PExpire(t.Context(), held.Name, 2*lease).Err())
	for i := 2; i <= 3 && held.Kind == lock.Read; i++ {
		key := fmt.Sprint(layout.HoldBase(held.Name), held.Owner, ":rwlock_timeout:", i)
		must(t, c.Set(t.Context(), key, uint64(f), 2*lease).Err())
	}
	return f
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
		wantErr(t, attempt(t, s, claim("n", "o")), lock.ErrKindMismatch)
		wantHeld(t, s, "n", false)
	}
	c.Del(t.Context(), layout.Token("n"))
	c.RPush(t.Context(), layout.Token("n"), "x")
	wantErr(t, attempt(t, s, claim("n", "o")), lock.ErrKindMismatch)
}

func TestAHoldOutlivesItsFenceKey(t *testing.T) {
	_, s, c := begin(t)
	forget := func() { c.Del(t.Context(), layout.Token("n")) }
	f := acquire(t, s, claim("n", "o")).Fence

	forget()
	wantErr(t, renewOne(t, s, "n", "o", f), nil)
	again := claim("n", "o")
	again.Fence = f + 7
	if got := acquire(t, s, again).Fence; got != f+7 {
		t.Errorf("acquired again it has fence %d, want %d", got, f+7)
	}
	f += 7
	if got := c.Get(t.Context(), layout.Token("n")).Val(); got != script.Decimal(f) {
		t.Errorf("the fence key is %q, want %d", got, f)
	}

	forget()
	over := handingOver(releaseOf("n", "o", f), "successor")
	res, err := lock.Await(t.Context(), s.StartRelease, over)
	if err != nil || res.HandedOver <= f {
		t.Errorf("the handoff gave %+v, %v, want a fence above %d", res, err, f)
	}

	forget()
	res, err = lock.Await(t.Context(), s.StartRelease, over)
	if err != nil || res.HandedOver <= f {
		t.Errorf("the repeated handoff gave %+v, %v, want a fence above %d", res, err, f)
	}

	forget()
	once := acquire(t, s, claim("n", "successor")).Fence
	if twice := acquire(t, s, claim("n", "successor")).Fence; once <= f || once != twice {
		t.Errorf("repeated acquisitions got fences %d and %d, want one above %d", once, twice, f)
	}

	forget()
	_, err = lock.Await(t.Context(), s.StartRelease, releaseOf("n", "successor", once))
	wantErr(t, err, nil)
}

func TestOtherThingsInAChunkDoNotSpoilIt(t *testing.T) {
	_, s, c := begin(t)
	var rs []lock.Renewal
	for _, name := range []string{"string", "fence", "good"} {
		rs = append(rs, renewal(claim(name, "o"), acquire(t, s, claim(name, "o")).Fence))
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
	handed := []lock.Kind{lock.Exclusive, lock.Exclusive, lock.Fair, lock.Write}
	for i, begun := 0, time.Now(); time.Since(begun) < 4*cfg.FenceTTL && !t.Failed(); i++ {
		k := handed[i%len(handed)]
		at := time.Now()
		g := acquire(t, s, kindClaim(k, "n", "o"))
		check("a grant", at)
		r := handingOver(kindReturn(k, "n", "o", g.Fence), "successor")
		at = time.Now()
		res, err := lock.Await(t.Context(), s.StartRelease, r)
		must(t, err)
		check("a handoff", at)
		release(t, s, kindReturn(k, "n", "successor", res.HandedOver))
	}
}

func TestAFenceKeyThatNeverEndsIsLeftSo(t *testing.T) {
	_, s, c := begin(t)
	for _, k := range kinds[:4] { // permits have no fence of their own
		c.Set(t.Context(), layout.Token("n"), 41, 0) // as an RFencedLock makes it
		for range 2 {
			f := acquire(t, s, kindClaim(k, "n", "o")).Fence
			wantErr(t, renewing(t, s, renewal(kindClaim(k, "n", "o"), f)), nil)
			if ttl := c.PTTL(t.Context(), layout.Token("n")).Val(); ttl != -1 || f <= 41 {
				t.Errorf("%v: with the fence %d the fence key ends in %v", k, f, ttl)
			}
		}
		release(t, s, kindReturn(k, "n", "o", 0))
	}
}
