package redisstore

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

func kindClaim(kind lock.Kind, name string, o lock.Owner) lock.Claim {
	c := claim(name, o)
	c.Kind = kind
	return c
}

func kindReturn(kind lock.Kind, name string, o lock.Owner, f lock.Fence) lock.Return {
	r := releaseOf(name, o, f)
	r.Kind = kind
	return r
}

// release makes a release that must succeed.
func release(t testing.TB, s *Store, r lock.Return) lock.Returned {
	t.Helper()
	res, err := lock.Await(t.Context(), s.StartRelease, r)
	if err != nil {
		t.Fatalf("release %+v: %v", r, err)
	}
	return res
}

func wantHash(t testing.TB, c *redis.Client, name string, want map[string]string) {
	t.Helper()
	for field, count := range maps.Clone(want) {
		if field != "mode" {
			delete(want, field)
			want[wholeID(field)] = count
		}
	}
	if got, err := c.HGetAll(t.Context(), name).Result(); err != nil || !maps.Equal(got, want) {
		t.Errorf("got hash %v, %v, want %v", got, err, want)
	}
}

// redissonReader does what a client of Redisson does to read.
func redissonReader(t testing.TB, c *redis.Client, name, owner string, ttl time.Duration) {
	t.Helper()
	ctx := t.Context()
	owner = wholeID(owner)
	pipe := c.TxPipeline()
	pipe.HSetNX(ctx, name, "mode", "read")
	pipe.HIncrBy(ctx, name, owner, 1)
	pipe.Set(ctx, "{"+name+"}:"+owner+":rwlock_timeout:1", 1, ttl)
	left := c.PTTL(ctx, name).Val()
	pipe.PExpire(ctx, name, max(left, ttl))
	_, err := pipe.Exec(ctx)
	must(t, err)
}

// redissonChannel is where Redisson hears of a name.
func redissonChannel(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

func TestReadAndWriteLocksLookAsRedissonExpects(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]string{"n": "{n}:", "{t}:n": "{t}:n:", "{n}": "lockd_odd:{n}:"} {
		t.Run(name, func(t *testing.T) {
			_, s, c := begin(t)
			ctx := t.Context()
			sub := subscribe(t, c, redissonChannel("redisson_rwlock", name))

			f := acquire(t, s, kindClaim(lock.Read, name, "u:7")).Fence
			longer := kindClaim(lock.Read, name, "u:7")
			longer.TTL = 2 * lease
			acquire(t, s, longer)
			wantHash(t, c, name, map[string]string{"mode": "read", "u:7": "1"})
			key := base + wholeID("u:7") + ":rwlock_timeout:1"
			if got := c.Get(ctx, key).Val(); got != script.Decimal(f) {
				t.Errorf("got %q in %s, want the fence", got, key)
			}
			near(t, key, c.PTTL(ctx, key).Val(), 2*lease)
			near(t, "lock", c.PTTL(ctx, name).Val(), 2*lease)
			if r := release(t, s, kindReturn(lock.Read, name, "u:7", f)); r.Listeners != 1 {
				t.Errorf("got %+v, want one listener", r)
			}
			wantMessage(t, sub, "0")

			f = acquire(t, s, kindClaim(lock.Write, name, "u:8")).Fence
			acquire(t, s, kindClaim(lock.Write, name, "u:8"))
			wantHash(t, c, name, map[string]string{"mode": "write", "u:8:write": "1"})
			near(t, "lock", c.PTTL(ctx, name).Val(), lease)
			if r := release(t, s, kindReturn(lock.Write, name, "u:8", f)); r.Listeners != 1 {
				t.Errorf("got %+v, want one listener", r)
			}
			wantMessage(t, sub, "1")
			wantMessage(t, sub, "00") // Redisson reads 0: the one that missed the first is woken
			if all := lockKeys(t, c); len(all) != 1 || all[0] != layout.Token(name) {
				t.Errorf("got keys %q, want only the token", all)
			}
		})
	}
}

func TestReadersOfRedissonBesideOurs(t *testing.T) {
	_, s, c := begin(t)
	redissonReader(t, c, "n", "r:1", lease/2)
	redissonReader(t, c, "n", "r:2", time.Hour)
	f := acquire(t, s, kindClaim(lock.Read, "n", "o")).Fence
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), time.Hour)
	st, err := s.Look(t.Context(), "n")
	if err != nil || st.Kind != lock.Read || st.Holders != 3 || st.Owner != whole("o") {
		t.Errorf("got %+v, %v, want three readers", st, err)
	}

	// One of them died: its timeout passed. The lock ends with the last one that lives.
	c.Del(t.Context(), "{n}:"+wholeID("r:2")+":rwlock_timeout:1")
	if r := release(t, s, kindReturn(lock.Read, "n", "o", f)); r.Listeners != 0 {
		t.Errorf("got %+v, want no message while somebody reads", r)
	}
	wantHash(t, c, "n", map[string]string{"mode": "read", "r:1": "1"})
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), lease/2)

	h := refused(t, s, kindClaim(lock.Write, "n", "w"))
	if h.HeldBy != whole("r:1") {
		t.Errorf("got %+v, want it held by r:1", h)
	}
	near(t, "retry", h.RetryAfter, lease/2)
	// A dead reader holds nobody back.
	c.Del(t.Context(), "{n}:"+wholeID("r:1")+":rwlock_timeout:1")
	acquire(t, s, kindClaim(lock.Write, "n", "w"))
	wantHash(t, c, "n", map[string]string{"mode": "write", "w:write": "1"})
}

func TestOurReadersAreAliveForRedisson(t *testing.T) {
	_, s, c := begin(t)
	redissonReader(t, c, "n", "r:1", time.Hour)
	f := acquire(t, s, kindClaim(lock.Read, "n", "o")).Fence
	// What Redisson looks at when r:1 leaves: the timeouts of the others.
	near(t, "timeout", c.PTTL(t.Context(), "{n}:"+wholeID("o")+":rwlock_timeout:1").Val(), lease)
	r := lock.Renewal{Name: "n", Kind: lock.Read, Owner: whole("o"), Fence: f, TTL: 2 * time.Hour}
	wantErr(t, renewing(t, s, r), nil)
	near(t, "timeout", c.PTTL(t.Context(), "{n}:"+wholeID("o")+":rwlock_timeout:1").Val(), 2*time.Hour)
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), 2*time.Hour)
	near(t, "the other", c.PTTL(t.Context(), "{n}:"+wholeID("r:1")+":rwlock_timeout:1").Val(), time.Hour)
}

func TestAWriterGoesOnReading(t *testing.T) {
	_, s, c := begin(t)
	f := acquire(t, s, kindClaim(lock.Write, "n", "w")).Fence
	read := kindClaim(lock.Read, "n", "r")
	read.WriteOwner = whole("w")
	acquire(t, s, read)
	sub := subscribe(t, c, "redisson_rwlock:{n}")
	over := handingOver(kindReturn(lock.Write, "n", "w", f), "w2")
	if r := release(t, s, over); r.HandedOver != 0 || r.Listeners != 1 {
		t.Errorf("got %+v, want it freed: somebody reads", r)
	}
	wantMessage(t, sub, "1") // other readers may come in, which Redisson forgets to say
	wantMessage(t, sub, "00")
	wantHash(t, c, "n", map[string]string{"mode": "read", "r": "1"})
	near(t, "read lock", c.PTTL(t.Context(), "n").Val(), lease)
}

func TestAForcedReadReleaseLeavesNoTimeouts(t *testing.T) {
	_, s, c := begin(t)
	f := acquire(t, s, kindClaim(lock.Read, "n", "o")).Fence
	redissonReader(t, c, "n", "r:1", lease)
	sub := subscribe(t, c, "redisson_rwlock:{n}")
	held, err := s.ForceRelease(t.Context(), "n", lock.Read)
	if err != nil || !held {
		t.Errorf("got %v, %v, want it held", held, err)
	}
	wantMessage(t, sub, "0")
	if all := lockKeys(t, c); len(all) != 1 {
		t.Errorf("got keys %q, want only the token", all)
	}
	r := renewal(kindClaim(lock.Read, "n", "o"), f)
	wantErr(t, renewing(t, s, r), lock.ErrNotHeld)
}

// TestOneOfManyReadersLeavesWithoutALookAtAll counts what its release looks at, and checks that nothing is left of
// readers that died meanwhile.
func TestOneOfManyReadersLeavesWithoutALookAtAll(t *testing.T) {
	const readers, dead = 100, 20
	srv, s, c := begin(t)
	var holds []lock.Return
	for i := range readers {
		claim := kindClaim(lock.Read, "n", whole(lock.Owner(fmt.Sprint("u:", i))))
		claim.TTL = lease + time.Duration(i)*time.Second // the last one has the longest lease
		holds = append(holds, kindReturn(lock.Read, "n", claim.Owner, acquire(t, s, claim).Fence))
	}
	before := srv.Calls("pttl")
	for _, h := range holds[:readers/2] {
		release(t, s, h)
	}
	if looks := srv.Calls("pttl") - before; looks > readers/2*8 {
		t.Errorf("%d readers looked at %d keys when they left", readers/2, looks)
	}
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), lease+(readers-1)*time.Second)

	for _, h := range holds[readers/2 : readers/2+dead] {
		c.Del(t.Context(), "{n}:"+string(h.Owner)+":rwlock_timeout:1")
	}
	last := holds[readers-1]
	// The lock may seem to live a little longer than its longest hold: both times are set one after the other.
	later := "return redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[2]) + 2)"
	must(t, c.Eval(t.Context(), later, []string{"n", "{n}:" + string(last.Owner) + ":rwlock_timeout:1"}).Err())
	release(t, s, last) // the longest: what remains ends with the next one
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), lease+(readers-2)*time.Second)
	for _, h := range holds[readers/2+dead : readers-1] {
		release(t, s, h)
	}
	if all := lockKeys(t, c); len(all) != 1 || all[0] != layout.Token("n") {
		t.Errorf("got keys %q, want only the token", all)
	}
}

// What is left of an earlier hold of a reader is not raised for one that its owner has of another kind.
func TestTheFenceOfAReaderWhoseNameIsNoneOfReadersIsNotRaised(t *testing.T) {
	srv, s, _ := begin(t)
	for _, kind := range []lock.Kind{lock.Read, lock.Write} {
		c := kindClaim(kind, kind.String(), "o")
		c.TTL = time.Hour
		c.Fence = acquire(t, s, c).Fence
		must(t, srv.Client().Del(t.Context(), c.Name).Err())
		acquire(t, s, claim(c.Name, "o"))
		c.Fence += 1000
		if _, err := s.Raise(t.Context(), c); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("%v: got %v", kind, err)
		}
	}
}

// A MultiLock of Redisson sets the time of the whole lock to its own lease, and so does Redisson's renewal, whoever
// else reads. What lockd does next gives its readers their time back.
func TestTimeThatRedissonTookFromReadersIsGivenBack(t *testing.T) {
	t.Parallel()
	const short = 30 * time.Second
	for what, next := range map[string]func(t *testing.T, s *Store, f lock.Fence){
		"renewed": func(t *testing.T, s *Store, f lock.Fence) {
			r := lock.Renewal{Name: "n", Kind: lock.Read, Owner: whole("u:1#1"), Fence: f, TTL: lease}
			wantErr(t, renewing(t, s, r), nil)
		},
		"verified": func(t *testing.T, s *Store, f lock.Fence) {
			r := lock.Renewal{Name: "n", Kind: lock.Read, Owner: whole("u:1#1"), Fence: f}
			wantErr(t, renewing(t, s, r), nil)
		},
		"a writer waits": func(t *testing.T, s *Store, _ lock.Fence) {
			w := kindClaim(lock.Write, "n", "u:1#2")
			w.Place = place
			near(t, "retry", refused(t, s, w).RetryAfter, time.Hour)
		},
		"another reader leaves": func(t *testing.T, s *Store, _ lock.Fence) {
			release(t, s, kindReturn(lock.Read, "n", "u:1#3", acquire(t, s, kindClaim(lock.Read, "n", "u:1#3")).Fence))
		},
	} {
		t.Run(what, func(t *testing.T) {
			_, s, c := begin(t)
			long := kindClaim(lock.Read, "n", "u:1#1")
			long.TTL = time.Hour
			f := acquire(t, s, long).Fence
			redissonReader(t, c, "n", "r:1", time.Minute)
			c.PExpire(t.Context(), "n", short)
			next(t, s, f)
			near(t, "lock", c.PTTL(t.Context(), "n").Val(), time.Hour)
		})
	}
}

// The lease of a reader of Redisson ends when Redisson says so, though the time of its single hold is longer.
func TestTheLeaseOfAReaderOfRedissonIsNotProlonged(t *testing.T) {
	_, s, c := begin(t)
	redissonReader(t, c, "n", "r:1", time.Hour)
	c.PExpire(t.Context(), "n", lease)
	_ = refused(t, s, kindClaim(lock.Write, "n", "u:1#1"))
	near(t, "lock", c.PTTL(t.Context(), "n").Val(), lease)
}
