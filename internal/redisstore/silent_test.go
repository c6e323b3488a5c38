package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
)

// suspectsOf are the notes about silent waiters of Redisson.
const suspectsOf = "lockd_lock_suspect:{n}"

// looksAgain lets the next script look at who is silent, as after half a second.
func looksAgain(t testing.TB, c *redis.Client) {
	t.Helper()
	must(t, c.HDel(t.Context(), suspectsOf, "").Err())
}

// silentLonger makes each silent waiter of Redisson silent for so much longer.
func silentLonger(t testing.TB, c *redis.Client, d time.Duration) {
	t.Helper()
	for owner := range c.HGetAll(t.Context(), suspectsOf).Val() {
		must(t, c.HIncrBy(t.Context(), suspectsOf, owner, -d.Milliseconds()).Err())
	}
}

// Processes of Redisson that died one after the other, with waiters of lockd between theirs, are all known to be dead
// when it would be their turn.
func TestDeadWaitersOfRedissonBetweenLivingOnesCostOneWaitAltogether(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	f := acquire(t, s, fairClaim("n", "o")).Fence
	var living []lock.Owner
	for i := range 5 {
		k.enqueue(t, c, fmt.Sprintf("dead:%d", i), time.Duration(i+1)*5*time.Minute)
		looksAgain(t, c)
		living = append(living, lock.Owner(fmt.Sprintf("w:1#%d", i)))
		_ = refused(t, s, fairClaim("n", living[i]))
	}
	silentLonger(t, c, 4*time.Second)
	last := lock.Owner("o")
	for _, o := range living {
		release(t, s, kindReturn(lock.Fair, "n", last, f))
		g, err := lock.Await(t.Context(), s.StartAcquire, fairClaim("n", o))
		if err != nil {
			t.Fatalf("%s: got %v, want its turn at once: all before it are dead", o, err)
		}
		last, f = o, g.Fence
	}
}

// A waiter is dead when it was silent at each look for some seconds, however far behind it stands.
func TestASilentWaiterOfRedissonIsForgivenWhenItIsHeard(t *testing.T) {
	_, s, c := begin(t)
	k := redissonFair("n")
	one, two, three := wholeID("r:1"), wholeID("r:2"), wholeID("r:3")
	acquire(t, s, fairClaim("n", "o"))
	_ = refused(t, s, fairClaim("n", "w:1#1"))
	for i := 1; i <= 3; i++ { // beyond one that listens there may be one that does not
		k.enqueue(t, c, fmt.Sprintf("r:%d", i), time.Hour)
	}
	sub := subscribe(t, c, k.channel+":"+one)
	look := func(want ...string) {
		t.Helper()
		looksAgain(t, c)
		_, err := s.Enlist(t.Context(), "n", wholes("w:1#1"), place)
		must(t, err)
		got := c.HKeys(t.Context(), suspectsOf).Val()
		slices.Sort(got)
		if want = append([]string{""}, want...); !slices.Equal(got, want) {
			t.Errorf("got notes of %q, want of %q", got, want)
		}
		near(t, "TTL of the notes", c.PTTL(t.Context(), suspectsOf).Val(), 10*time.Second)
	}
	look(two, three)
	silentLonger(t, c, 3*time.Second)
	since := c.HGet(t.Context(), suspectsOf, three).Val()
	must(t, sub.Subscribe(t.Context(), k.channel+":"+two))
	until(t, "it listens", func() error {
		if ch := k.channel + ":" + two; c.PubSubNumSub(t.Context(), ch).Val()[ch] == 0 {
			return errors.New("nobody does")
		}
		return nil
	})
	look(three)
	if got := c.HGet(t.Context(), suspectsOf, three).Val(); got != since {
		t.Errorf("silent since %s, want since %s", got, since)
	}
	// The next time that the same thread waits is no part of this one.
	c.LRem(t.Context(), k.queue, 1, three)
	c.ZRem(t.Context(), k.timeouts, three)
	look()
	_ = refused(t, s, fairClaim("n", "w:1#2")) // those that listen are in nobody's way
}

func TestWaitersOfRedissonAreLookedAtTwiceASecondAtMost(t *testing.T) {
	srv, s, c := begin(t)
	acquire(t, s, fairClaim("n", "o"))
	redissonFair("n").enqueue(t, c, "dead:1", time.Hour)
	_ = refused(t, s, fairClaim("n", "w:1#1"))
	must(t, c.HIncrBy(t.Context(), suspectsOf, "", time.Minute.Milliseconds()).Err()) // it lasts
	before := srv.Calls("pubsub|numsub")
	for range 50 {
		_ = refused(t, s, fairClaim("n", "w:1#1"))
	}
	// The one at the head is looked at in any case.
	if n := srv.Calls("pubsub|numsub") - before; n > 50 {
		t.Errorf("50 attempts looked %d times", n)
	}
}
