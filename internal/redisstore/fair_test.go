package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

const place = 20 * time.Second

// fairClaim waits in the queue if it is refused.
func fairClaim(name string, o lock.Owner) lock.Claim {
	c := claim(name, o)
	c.Kind, c.Place = lock.Fair, place
	return c
}

// refused makes an acquisition that must be refused.
func refused(t testing.TB, s *Store, c lock.Claim) *lock.HeldError {
	t.Helper()
	err := attempt(t, s, c)
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok {
		t.Fatalf("acquire %+v: got %v, want it refused", c, err)
	}
	return held
}

// fairKeysOf are the keys of the queue of a name, as Redisson calls them.
type fairKeysOf struct{ queue, timeouts, channel string }

func redissonFair(name string) fairKeysOf {
	return fairKeysOf{
		"redisson_lock_queue:{" + name + "}", "redisson_lock_timeout:{" + name + "}",
		"redisson_lock__channel:{" + name + "}",
	}
}

// enqueue does what a client of Redisson does to wait: its deadline is from now.
func (k fairKeysOf) enqueue(t testing.TB, c *redis.Client, owner string, deadline time.Duration) {
	t.Helper()
	score := float64(time.Now().Add(deadline).UnixMilli())
	owner = wholeID(owner)
	err := errors.Join(
		c.ZAdd(t.Context(), k.timeouts, redis.Z{Score: score, Member: owner}).Err(),
		c.RPush(t.Context(), k.queue, owner).Err())
	must(t, err)
}

// subscribe hears a channel.
func subscribe(t testing.TB, c *redis.Client, channel string) *redis.PubSub {
	t.Helper()
	sub := c.Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	must(t, err)
	return sub
}

func wantMessage(t testing.TB, sub *redis.PubSub, want string) {
	t.Helper()
	msg, err := sub.ReceiveTimeout(t.Context(), 10*time.Second)
	if m, ok := msg.(*redis.Message); !ok || m.Payload != want {
		t.Errorf("got message %v, %v, want %q", msg, err, want)
	}
}

// wantQueue checks the queue, as it is in Redis and as the Store tells it.
func wantQueue(t testing.TB, c *redis.Client, s *Store, name string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = wholeID(want[i])
	}
	if got := c.LRange(t.Context(), redissonFair(name).queue, 0, -1).Val(); !slices.Equal(got, want) {
		t.Errorf("got queue %q, want %q", got, want)
	}
	var told []string
	owners, err := s.Queue(t.Context(), name, 100)
	for _, o := range owners {
		told = append(told, string(o))
	}
	if err != nil || !slices.Equal(told, want) {
		t.Errorf("the store tells %q, %v, want %q", told, err, want)
	}
}

// near checks a time, which was to be reached in so long when it was set a moment ago.
func near(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want*2/3 { // on a busy machine a moment is long
		t.Errorf("%s: got %v, want about %v", what, got, want)
	}
}

// until a score of a sorted set, if it is a time.
func scoreIn(t testing.TB, c *redis.Client, key, member string) time.Duration {
	t.Helper()
	score, err := c.ZScore(t.Context(), key, member).Result()
	if err != nil {
		t.Errorf("%s of %q: %v", key, member, err)
	}
	return time.Until(time.UnixMilli(int64(score)))
}

func TestAFairWaiterLooksAsRedissonExpects(t *testing.T) {
	t.Parallel()
	for name, braced := range map[string]string{"n": "{n}", "{t}:n": "{t}:n", "a*[ä]": "{a*[ä]}"} {
		t.Run(name, func(t *testing.T) {
			_, s, c := begin(t)
			queue, timeouts, places := "redisson_lock_queue:"+braced, "redisson_lock_timeout:"+braced, "lockd_lock_queue:"+braced
			f := acquire(t, s, fairClaim(name, "o")).Fence
			if h := refused(t, s, fairClaim(name, "w")); h.Ahead != 0 || h.HeldBy != whole("o") {
				t.Errorf("got %+v, want nobody ahead of it but o", h)
			}
			if h := refused(t, s, fairClaim(name, "w2")); h.Ahead != 1 {
				t.Errorf("got %+v, want one ahead of it", h)
			}
			if got := c.LRange(t.Context(), queue, 0, -1).Val(); !slices.Equal(got, []string{wholeID("w"), wholeID("w2")}) {
				t.Errorf("got queue %q", got)
			}
			near(t, "deadline", scoreIn(t, c, timeouts, wholeID("w")), place)
			near(t, "end of the place", scoreIn(t, c, places, wholeID("w2")), place)

			// The release goes to the next one alone, and what the queue was made of ends with the last grant.
			sub := subscribe(t, c, layout.NewsChannel(name))
			r, err := lock.Await(t.Context(), s.StartRelease, kindReturn(lock.Fair, name, "o", f))
			if want := (lock.Returned{Listeners: 1, Turn: whole("w")}); err != nil || r != want {
				t.Errorf("got %+v, %v, want %+v", r, err, want)
			}
			wantMessage(t, sub, fmt.Sprintf("released %d 0 %s", f, whole("w")))
			f = acquire(t, s, fairClaim(name, "w")).Fence
			wantMessage(t, sub, fmt.Sprintf("turn %d 0 %s", lease.Milliseconds(), whole("w2"))) // its turn is next
			r, err = lock.Await(t.Context(), s.StartRelease, kindReturn(lock.Fair, name, "w", f))
			if err != nil || r.Turn != whole("w2") {
				t.Errorf("got %+v, %v, want that it is the turn of w2", r, err)
			}
			f = acquire(t, s, fairClaim(name, "w2")).Fence
			release(t, s, kindReturn(lock.Fair, name, "w2", f))
			if all := lockKeys(t, c); len(all) != 1 || all[0] != layout.Token(name) {
				t.Errorf("got keys %q, want only the token", all)
			}
		})
	}
}

// That a queue which waiters of Redisson share has no end, see fair_bound in script/fair.lua, takes a right of its own.
func TestAQueueOfLockdsWaitersEndsByItselfAndOneWithRedissonsDoesNot(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, cfg := srv.Client(), quick(srv)
	cfg.Prefix = "app:"
	cfg.Username, cfg.PasswordNow = documentedUser(t, c)
	s, k := open(t, cfg), redissonFair("app:n")
	acquire(t, s, fairClaim("n", "o"))
	_ = refused(t, s, fairClaim("n", "w"))
	// The places end with it: without them its waiters would count as Redisson's.
	for _, key := range []string{k.queue, k.timeouts, layout.Places("app:n")} {
		near(t, "TTL of "+key, c.PTTL(t.Context(), key).Val(), 10*time.Minute)
	}
	k.enqueue(t, c, "r:42", time.Hour)
	_, err := s.Enlist(t.Context(), "n", wholes("w"), place)
	must(t, err)
	for _, key := range []string{k.queue, k.timeouts} {
		if ttl := c.PTTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("%s ends in %v, though a waiter of Redisson relies on it", key, ttl)
		}
	}
}

func TestAWaiterOutlivesTheGrantsOfRedissonBeforeIt(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	c.HSet(t.Context(), "n", wholeID("r:0"), 1)
	c.PExpire(t.Context(), "n", lease)
	k.enqueue(t, c, "r:1", 5*time.Minute)
	k.enqueue(t, c, "r:2", 10*time.Minute)
	if h := refused(t, s, fairClaim("n", "w")); h.Ahead != 2 {
		t.Errorf("got %+v, want two ahead", h)
	}
	near(t, "deadline behind two", scoreIn(t, c, k.timeouts, wholeID("w")), place+10*time.Minute)

	// r:1 is granted: it takes its wait off everybody's deadline.
	c.LPop(t.Context(), k.queue)
	c.ZRem(t.Context(), k.timeouts, wholeID("r:1"))
	for _, o := range []string{"r:2", "w"} {
		c.ZIncrBy(t.Context(), k.timeouts, -300_000, wholeID(o))
	}
	near(t, "deadline after a grant", scoreIn(t, c, k.timeouts, wholeID("w")), place+5*time.Minute)
	got, err := s.Enlist(t.Context(), "n", wholes("w", "w2"), place)
	if err != nil || !slices.Equal(got, []int{lock.PlaceUnknown, 2}) {
		t.Errorf("got %v, %v, want its place and position 2", got, err)
	}
	near(t, "deadline behind one", scoreIn(t, c, k.timeouts, wholeID("w")), place+5*time.Minute)
	near(t, "deadline of the next", scoreIn(t, c, k.timeouts, wholeID("w2")), place+5*time.Minute)
	c.LPop(t.Context(), k.queue)
	c.ZRem(t.Context(), k.timeouts, wholeID("r:2"))
	if _, err := s.Enlist(t.Context(), "n", wholes("w"), place); err != nil {
		t.Error(err)
	}
	near(t, "deadline at the head", scoreIn(t, c, k.timeouts, wholeID("w")), place)
}

func TestDeadWaitersOfRedissonAreEvictedWithinSeconds(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	k.enqueue(t, c, "late:1", -time.Second) // its deadline passed: it is out at once
	// A process with many waiting threads died. Its deadlines are far away.
	for i := range 20 {
		k.enqueue(t, c, fmt.Sprintf("dead:%d", i), time.Duration(i+1)*5*time.Minute)
	}
	for _, silent := range []time.Duration{0, time.Second} {
		silentLonger(t, c, silent)
		if h := refused(t, s, fairClaim("n", "w")); h.HeldBy != whole("dead:0") ||
			h.RetryAfter != time.Second || h.Ahead != 20 {
			t.Errorf("got %+v, want that it looks again after a second", h)
		}
	}
	silentLonger(t, c, 3*time.Second)
	acquire(t, s, fairClaim("n", "w"))
	wantQueue(t, c, s, "n")
}

func TestALivingWaiterOfRedissonIsNeverEvicted(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	k.enqueue(t, c, "r:1", -time.Hour) // by a clock that is an hour late
	sub := subscribe(t, c, k.channel+":"+wholeID("r:1"))
	for range 3 {
		if h := refused(t, s, fairClaim("n", "w")); h.HeldBy != whole("r:1") {
			t.Fatalf("got %+v, want that it waits for r:1", h)
		}
		looksAgain(t, c)
		silentLonger(t, c, time.Minute) // if anybody is
	}
	wantQueue(t, c, s, "n", "r:1", "w")
	// It is told when the name is free, and nobody else gets it meanwhile.
	c.HSet(t.Context(), "n", wholeID("o"), 1)
	c.PExpire(t.Context(), "n", lease)
	r := handingOver(kindReturn(lock.Fair, "n", "o", 0), "w")
	res, err := lock.Await(t.Context(), s.StartRelease, r)
	if want := (lock.Returned{Listeners: 1, Turn: whole("r:1")}); err != nil || res != want {
		t.Errorf("got %+v, %v, want %+v", res, err, want)
	}
	wantMessage(t, sub, "0")
	// When it dies it is gone.
	_ = sub.Close()
	until(t, "acquire", func() error {
		silentLonger(t, c, time.Second)
		return attempt(t, s, fairClaim("n", "w"))
	})
}

func TestAWaiterThatWasEvictedAliveComesBackInFront(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	acquire(t, s, fairClaim("n", "o"))
	for _, o := range wholes("w1", "w2", "w3") {
		_ = refused(t, s, fairClaim("n", o))
	}
	// Redisson, with a clock that is early, takes the first two for dead; another one comes.
	for range 2 {
		c.ZRem(t.Context(), k.timeouts, c.LPop(t.Context(), k.queue).Val())
	}
	if _, err := s.Enlist(t.Context(), "n", wholes("w4"), place); err != nil {
		t.Error(err)
	}
	wantQueue(t, c, s, "n", "w3", "w4")
	got, err := s.Enlist(t.Context(), "n", wholes("w4", "w1", "o", "w2", "w3", "w5"), place)
	want := []int{lock.PlaceUnknown, 0, lock.PlaceHolds, 1, lock.PlaceUnknown, 4}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	wantQueue(t, c, s, "n", "w1", "w2", "w3", "w4", "w5")

	// It comes back by a claim, too, and takes the name if that is free.
	c.ZRem(t.Context(), k.timeouts, c.LPop(t.Context(), k.queue).Val())
	c.Del(t.Context(), "n")
	acquire(t, s, fairClaim("n", "w1"))
	wantQueue(t, c, s, "n", "w2", "w3", "w4", "w5")
	if n := c.ZCard(t.Context(), "lockd_lock_queue:{n}").Val(); n != 4 {
		t.Errorf("got %d places, want one for each in the queue", n)
	}
}

func TestFairWaitersHearWhatRedissonTellsThem(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"n", "{t}:n", "a*[b]?\\"} {
		t.Run(name, func(t *testing.T) {
			_, s, c := begin(t)
			all, mine := make(chan lock.Notice, 10), make(chan lock.Notice, 10)
			defer s.Listen(name, lock.Fair, func(n lock.Notice) { all <- n })()
			stop := s.ListenTurn(name, "u:1#2", func(n lock.Notice) { mine <- n })
			listening := lock.Notice{What: lock.NoticeListening}
			for _, ch := range []chan lock.Notice{all, mine} {
				if n := <-ch; n != listening {
					t.Errorf("%q: got %+v first", name, n)
				}
			}
			c.Publish(t.Context(), layout.Channel(name)+":u:1#2", "0")
			if n := <-mine; n != (lock.Notice{What: lock.NoticeReleased, For: "u:1#2"}) {
				t.Errorf("%q: got %+v, want a release", name, n)
			}
			if n, err := c.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result(); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			for _, ch := range []chan lock.Notice{all, mine} {
				if n := <-ch; n.What != lock.NoticeDeaf {
					t.Errorf("%q: got %+v at an interruption", name, n)
				}
				if n := <-ch; n != listening {
					t.Errorf("%q: got %+v after an interruption", name, n)
				}
			}
			stop()
			until(t, "nobody listens for the waiter", func() error {
				if n := c.PubSubNumSub(t.Context(), layout.Channel(name)+":u:1#2").Val(); n[layout.Channel(name)+":u:1#2"] > 0 {
					return fmt.Errorf("%v", n)
				}
				return nil
			})
		})
	}
}

// Redisson takes dead waiters of lockd out of the queue, and leaves their places. One of its own counts all the same.
func TestPlacesOfWhoIsNotInTheQueueDoNotHideWaitersOfRedisson(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	fairWaiters(t, c, "u:#", 90, 1)
	must(t, c.Del(t.Context(), k.queue, k.timeouts).Err())
	acquire(t, s, fairClaim("n", "o"))
	k.enqueue(t, c, "r:1", time.Hour)
	_ = refused(t, s, fairClaim("n", "w"))
	if ttl := c.PTTL(t.Context(), k.queue).Val(); ttl != -1 {
		t.Errorf("the queue ends in %v, though a waiter of Redisson relies on it", ttl)
	}
}

// Without places they are known by their names. A channel that lockd listens to for one does not keep it alive.
func TestDeadWaitersWithoutPlacesAreTakenOutQuickly(t *testing.T) {
	_, s, c := begin(t)
	heard := make(chan lock.What, 10)
	defer s.ListenTurn("n", whole("u:#0"), func(n lock.Notice) { heard <- n.What })()
	await(t, heard, lock.NoticeListening)
	fairWaiters(t, c, "u:#", 2000, 9e15)
	must(t, c.Del(t.Context(), layout.Places("n")).Err())
	for n := 0; attempt(t, s, fairClaim("n", "v:#1")) != nil; n++ {
		if n == 5 {
			t.Fatal("a free lock was refused 6 times")
		}
	}
}

func TestEnlistingIsCheap(t *testing.T) {
	srv, s, _ := begin(t)
	var owners []lock.Owner
	for i := range 1200 {
		owners = append(owners, whole(lock.Owner(fmt.Sprintf("u:#%d", i))))
	}
	acquire(t, s, fairClaim("n", "o"))
	got, err := s.Enlist(t.Context(), "n", owners, place)
	if err != nil || len(got) != 1200 || got[0] != 0 || got[1199] != 1199 {
		t.Fatalf("got %d positions, %v", len(got), err)
	}
	before, zadd := srv.ScriptCalls(), srv.Calls("zadd")
	if _, err := s.Enlist(t.Context(), "n", owners, place); err != nil {
		t.Error(err)
	}
	if n := srv.ScriptCalls() - before; n != 3 {
		t.Errorf("1200 places were prolonged by %d scripts, want 3", n)
	}
	if n := srv.Calls("zadd") - zadd; n != 6 {
		t.Errorf("1200 places were prolonged by %d times ZADD, want 6", n)
	}
}

// However waiters that leave together stand in a long queue, the others keep their order. The queue is not written
// anew, and it is only read as far as they stand.
func TestManyWaitersLeaveALongQueueCheaply(t *testing.T) {
	t.Parallel()
	const all = 5000
	for _, c := range []struct {
		what  string
		who   func(i int) bool
		reads int // of about 1,000 places each, at most
	}{
		{"the last", func(i int) bool { return i >= all-500 }, 1},
		{"the first", func(i int) bool { return i < 500 }, 1},
		{"every second of some in the middle", func(i int) bool { return i >= 2000 && i < 3000 && i%2 == 0 }, 2},
		{"some everywhere", func(i int) bool { return i%50 == 0 }, 8 + all/1000},
	} {
		t.Run(c.what, func(t *testing.T) {
			srv := redistest.Start(t)
			s, raw := open(t, quick(srv)), srv.Client()
			acquire(t, s, fairClaim("n", "o"))
			var owners, leaving []lock.Owner
			var stay []string
			for i := range all {
				o := whole(lock.Owner(fmt.Sprintf("u#%d", i)))
				owners = append(owners, o)
				if c.who(i) {
					leaving = append(leaving, o)
				} else {
					stay = append(stay, string(o))
				}
			}
			_, err := s.Enlist(t.Context(), "n", owners, place)
			must(t, err)
			writes, reads := srv.Calls("rpush"), srv.Calls("lrange")
			must(t, s.Leave(t.Context(), "n", lock.Fair, leaving))
			if n := srv.Calls("rpush") - writes; n != 0 {
				t.Errorf("the queue was written anew by %d times RPUSH", n)
			}
			if n := srv.Calls("lrange") - reads; n > c.reads {
				t.Errorf("the queue was read %d times, want at most %d", n, c.reads)
			}
			got := raw.LRange(t.Context(), redissonFair("n").queue, 0, -1).Val()
			if !slices.Equal(got, stay) {
				t.Errorf("%d wait, want the %d others in their order", len(got), len(stay))
			}
		})
	}
}
