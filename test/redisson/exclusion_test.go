package redisson

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
)

// visits is how many visits a room gets in a test.
var visits = tier.Pick(320, 2000)

// sleepOfWriters is the TTL where Redisson writes. A waiter of Redisson may sleep for so long: it may miss the message
// of a writer of Redisson that leaves.
const sleepOfWriters = 10 * time.Second

func TestBothExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{plain, fenced, fair, write, semaphore} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			ttl := long
			if k.name == write.name {
				ttl = sleepOfWriters
			}
			s := newStage(t, ttl)
			s.prepare(k, "room")
			r := newRoom(t, 1)
			cs := s.dialAll()
			s.exclude(r, visits, visitors{kind: k.name, name: "room", visits: visits, lock: func(i, _ int) locker {
				return s.lockerOf(cs[i], k, "room")
			}})
		})
	}
}

func TestWritersExcludeReadersOfBothSides(t *testing.T) {
	t.Parallel()
	s := newStage(t, sleepOfWriters)
	r := newRoom(t, 1)
	cs := s.dialAll()
	writes := (visits/(2*enterers) + 2) / 3 * 2 * enterers // each visitor's first, fourth, ...
	s.exclude(r, writes, visitors{kind: "rw", name: "room", visits: visits, lock: func(i, visit int) locker {
		if visit%3 == 0 {
			return s.lockerOf(cs[i], write, "room")
		}
		return s.lockerOf(cs[i], read, "room")
	}})
}

func TestPermitsOfBothSidesAreNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 3
	s := newStage(t, long)
	s.theirs("room", limit)
	r := newRoom(t, limit)
	cs := s.dialAll()
	three := kind{name: "semaphore", opts: []client.LockOption{client.Permits(1, limit)}}
	s.visit(r, visitors{kind: "semaphore", name: "room", visits: visits, lock: func(i, _ int) locker {
		return s.lockerOf(cs[i], three, "room")
	}})
	if _, err := r.verdict(0); err != nil {
		t.Error(err)
	}
	s.redisson.worker("main").want(limit, "available", "semaphore", "room")
}

func TestSeveralAtOnceExclude(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	r := newRoom(t, 1)
	cs := s.dialAll()
	s.exclude(r, visits, visitors{kind: "multi", name: "lock:b,lock:a", visits: visits, lock: func(i, _ int) locker {
		return locker{kind: "multi", take: func() (uint64, func() error, error) {
			ls, err := cs[i].LockAll(t.Context(), []client.Item{{Name: "a"}, {Name: "b"}})
			if err != nil {
				return 0, nil, err
			}
			return ls.All()[0].Fence(), func() error { return ls.Unlock(t.Context()) }, nil
		}}
	}})
}

// dialAll makes a client for each visitor.
func (s *stage) dialAll() []*client.Client {
	s.t.Helper()
	var cs []*client.Client
	for range enterers {
		cs = append(cs, s.lockd.Dial(s.t))
	}
	return cs
}

// exclude has both sides enter a room until they have met often; a round has so many visits of who must be alone.
func (s *stage) exclude(r *room, alone int, v visitors) {
	s.t.Helper()
	for round := 1; round <= 50; round++ {
		s.visit(r, v)
		c, err := r.verdict(round * alone)
		if err != nil {
			s.t.Fatal(err)
		}
		if c.turns >= 10 {
			return
		}
	}
	s.t.Error("the sides hardly met")
}

// A checker that cannot fail proves nothing: one of eight visitors of a side does not lock, or locks something else.
func TestRoomCatchesWhoComesInWithoutTheLock(t *testing.T) {
	t.Parallel()
	t.Run("lockd", func(t *testing.T) {
		s := newStage(t, long)
		r := newRoom(t, 1)
		cs := s.dialAll()
		s.visit(r, visitors{kind: "lock", name: "room", visits: 160, lock: func(i, _ int) locker {
			if i > 0 {
				return s.lockerOf(cs[i], plain, "room")
			}
			return locker{kind: "lock", take: func() (uint64, func() error, error) {
				return 1 << 60, func() error { return nil }, nil
			}}
		}})
		if _, err := r.verdict(160); err == nil {
			t.Error("nothing was noticed")
		}
	})
	t.Run("Redisson", func(t *testing.T) {
		s := newStage(t, long)
		r := newRoom(t, 1)
		cs := s.dialAll()
		s.visit(r, visitors{kind: "lock", name: "another", visits: 480, lock: func(i, _ int) locker {
			return s.lockerOf(cs[i], plain, "room")
		}})
		if _, err := r.verdict(480); err == nil {
			t.Error("nothing was noticed")
		}
	})
}

// A lock that excludes but whose fences do not rise is caught, too.
func TestRoomCatchesFencesThatDoNotRise(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	r := newRoom(t, 1)
	c := s.lockd.Dial(s.t)
	for i := range 10 {
		l := s.lockerOf(c, fenced, "room")
		take := l.take
		l.take = func() (uint64, func() error, error) {
			fence, unlock, err := take()
			return min(fence, 5), unlock, err
		}
		if err := r.visit(l, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.verdict(10); err == nil {
		t.Error("nothing was noticed")
	}
}
