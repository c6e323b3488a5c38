package redisson

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// visits is how many visits a room gets in a test.
var visits = tier.Pick(320, 2000)

// sleepOfWriters is the TTL where Redisson writes. A waiter of Redisson may sleep for so long: it may miss the message
// of a writer of Redisson that leaves.
const sleepOfWriters = 10 * time.Second

func TestBothExcludeEachOther(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		begin func(t *testing.T) *stage
		kinds []kind
	}{
		"one Redis": {func(t *testing.T) *stage { return newStage(t, long) }, []kind{plain, fenced, fair, semaphore}},
		"writers":   {func(t *testing.T) *stage { return newStage(t, sleepOfWriters) }, []kind{write}},
		"a cluster": {func(t *testing.T) *stage {
			s, _ := clusterStage(t, sleepOfWriters)
			return s
		}, []kind{plain, fenced, fair, write, semaphore}},
		"a majority": {func(t *testing.T) *stage { return redlockStage(t, long) }, []kind{redPlain}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := row.begin(t)
			for _, k := range row.kinds {
				name := "room-" + k.name
				s.prepare(k, name)
				cs := s.dialAll()
				s.exclude(newRoom(t, 1), visits, visitors{kind: k.name, name: name, visits: visits, lock: func(i, _ int) locker {
					return s.lockerOf(cs[i], k, name)
				}})
			}
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
		harness.Must(s.t, err)
		if c.turns >= 10 {
			return
		}
	}
	s.t.Error("the sides hardly met")
}

// A checker that cannot fail proves nothing: one of eight visitors does not lock, all of a side lock something else, or
// fences do not rise.
func TestRoomCatchesALockThatDoesNotLock(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	cs := s.dialAll()
	for what, row := range map[string]struct {
		name string // that Redisson locks
		take func(i int, l locker) (uint64, func() error, error)
	}{
		"lockd does not lock": {"room", func(i int, l locker) (uint64, func() error, error) {
			if i == 0 {
				return 1 << 60, func() error { return nil }, nil
			}
			return l.take()
		}},
		"Redisson locks something else": {"another", func(_ int, l locker) (uint64, func() error, error) { return l.take() }},
		"fences do not rise": {"room", func(_ int, l locker) (uint64, func() error, error) {
			fence, unlock, err := l.take()
			return min(fence, 5), unlock, err
		}},
	} {
		r := newRoom(t, 1)
		s.visit(r, visitors{kind: "lock", name: row.name, visits: 320, lock: func(i, _ int) locker {
			l := s.lockerOf(cs[i], plain, "room")
			return locker{kind: l.kind, take: func() (uint64, func() error, error) { return row.take(i, l) }}
		}})
		if _, err := r.verdict(320); err == nil {
			t.Errorf("%s: nothing was noticed", what)
		}
	}
}
