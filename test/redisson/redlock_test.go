package redisson

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Kinds as RedissonRedLock over all masters has them, and lockd over the same.
var (
	redPlain  = kind{name: "red-lock"}
	redFenced = kind{name: "red-fenced"}
	redRead   = kind{name: "red-read", opts: read.opts}
	redWrite  = kind{name: "red-write", opts: write.opts}
)

// redlockStage has three masters that know nothing of each other.
func redlockStage(t *testing.T, ttl time.Duration) *stage {
	t.Helper()
	tier.Long(t)
	masters := redistest.StartMasters(t, 3)
	addrs := strings.Join(redistest.Addrs(masters), ",")
	return newStageAt(t, masters, ttl, "redlock://"+addrs, "LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS="+addrs)
}

func TestBothMeetOnAMajority(t *testing.T) {
	t.Parallel()
	s := redlockStage(t, long)
	for i, p := range []pair{
		{redPlain, redPlain}, {redFenced, redFenced}, {redWrite, redRead}, {redRead, redWrite}, {redWrite, redWrite},
	} {
		s.meet(p, fmt.Sprint("job", i))
	}
}

// A majority is enough for either side to keep the other out. Another owner has the first master meanwhile.
func TestAMajorityOfEitherSideIsRespected(t *testing.T) {
	t.Parallel()
	s := redlockStage(t, long)
	lone, red := s.redisson.worker("lone"), s.redisson.worker("red")
	c := s.lockd.Dial(t)

	lone.ask("acquire", "lock", "job", 0)
	l := s.lock(c, plain.with(client.Lease(long)), "job") // nothing renews it, so nothing takes the first master later
	lone.ask("release", "lock", "job")
	s.heldOn("job", 2)
	red.want(false, "try", "red-lock", "job", 0, 0)
	red.want(false, "try", "red-lock", "job", 300, 0)
	s.heldOn("job", 2)
	s.unlock(l)
	s.heldOn("job", 0)

	lone.ask("acquire", "lock", "job", 0)
	red.want(true, "try", "red-lock", "job", 0, 0)
	lone.ask("release", "lock", "job")
	s.heldOn("job", 2)
	if _, err := c.TryLock(t.Context(), "job"); !errors.Is(err, client.ErrHeld) {
		t.Errorf("lockd: got %v, want that it is held", err)
	}
	s.heldOn("job", 2)
	red.ask("release", "red-lock", "job")
	s.heldOn("job", 0)
	s.unlock(s.lock(c, plain, "job"))
}

// With a master killed both sides have the same majority. Redisson asks the dead one each time, for seconds.
func TestAMasterOfAMajorityIsKilled(t *testing.T) {
	t.Parallel()
	s := redlockStage(t, long)
	c, red := s.lockd.Dial(t), s.redisson.worker("red")
	s.meet(pair{redPlain, redPlain}, "before")
	s.nodes[0].Kill()
	red.want(true, "try", "red-lock", "job", 0, 0)
	if _, err := c.TryLock(t.Context(), "job"); !errors.Is(err, client.ErrHeld) {
		t.Errorf("lockd: got %v, want that it is held", err)
	}
	red.ask("release", "red-lock", "job")
	l := s.lock(c, plain, "job")
	red.want(false, "try", "red-lock", "job", 0, 0)
	s.unlock(l)
}

// Fences go on where RFencedLocks on the masters were, and those where lockd was.
func TestFencesOfAMajorityGoOnWithTokens(t *testing.T) {
	t.Parallel()
	s := redlockStage(t, long)
	c, r := s.lockd.Dial(t), s.redisson.worker("fenced")
	l := s.lock(c, plain, "job")
	fence := int64(l.Fence())
	harness.Until(t, "each master has the fence",
		func() bool { return fmt.Sprint(s.tokens("job")) == fmt.Sprint([]int64{fence, fence, fence}) })
	s.unlock(l)
	s.heldOn("job", 0)
	r.ask("acquire", "red-fenced", "job", 0)
	if got, want := s.tokens("job"), []int64{fence + 1, fence + 1, fence + 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Redisson's tokens are %v, want %v", got, want)
	}
	r.ask("release", "red-fenced", "job")

	// A majority is an hour ahead of the clock of lockd, as another clock or many tokens may have it.
	ahead := fence + time.Hour.Microseconds()
	for _, server := range s.servers[1:] {
		harness.Must(t, server.Set(t.Context(), "redisson_lock_token:{job}", ahead, redis.KeepTTL).Err())
	}
	r.ask("acquire", "red-fenced", "job", 0)
	r.ask("release", "red-fenced", "job")
	s.heldOn("job", 0)
	next := s.lock(c, plain, "job")
	if int64(next.Fence()) <= ahead+1 {
		t.Errorf("fence %d after token %d", next.Fence(), ahead+1)
	}
	harness.Until(t, "a majority has the fence", func() bool {
		have := 0
		for _, token := range s.tokens("job") {
			if token >= int64(next.Fence()) {
				have++
			}
		}
		return have >= 2
	})
	s.unlock(next)
}

// heldOn waits until so many masters have a holder of a name.
func (s *stage) heldOn(name string, n int) {
	s.t.Helper()
	harness.Until(s.t, fmt.Sprint(name, " is held on ", n, " masters"), func() bool {
		count := 0
		for _, server := range s.servers {
			found, err := server.Exists(s.t.Context(), name).Result()
			harness.Must(s.t, err)
			count += int(found)
		}
		return count == n
	})
}

// tokens are the last fences of a name on each master.
func (s *stage) tokens(name string) (all []int64) {
	s.t.Helper()
	for _, server := range s.servers {
		token, err := server.Get(s.t.Context(), "redisson_lock_token:{"+name+"}").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			s.t.Fatal(err)
		}
		all = append(all, token)
	}
	return all
}
