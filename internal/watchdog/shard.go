package watchdog

import (
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// shardBits is how many bits of a note say in which shard a lease or group is.
	shardBits = 4
	shards    = 1 << shardBits
)

// shard has some of the leases. All leases of a group are in one shard, so different groups rarely meet in a mutex.
type shard[L Lease[L]] struct {
	w      *Watchdog[L]
	number uint32

	// guards the fields below; taken after the mutexes of leases and groups, never before one of them
	mu         sync.Mutex
	entries    entries[L]
	near       *timeline // of entries
	groups     []*group  // by number, from 1 on
	freeGroups []uint32
	rounds     *timeline       // of groups
	ready      [sorts][]uint32 // entries to be renewed, or verified, as soon as there is room
	wakeAt     moment          // when the loop looks next. Locks that come and go in between do not wake it.
}

// noteOf is what the note of a lease or group says; numberOf is the number in its shard that it was made of.
func (s *shard[L]) noteOf(number uint32) uint32 { return number<<shardBits | s.number }

func numberOf(note uint32) (number uint32) { return note >> shardBits }

// has says whether the lease or group with this note is in the shard.
func (s *shard[L]) has(note uint32) bool { return note%shards == s.number }

// keepLocked is Keep, in the shard of the lease. It returns false if the lease's group turns out to be in another one.
func (s *shard[L]) keepLocked(l L, group *lock.Note, until time.Time) bool {
	if group != nil && !s.ensureLocked(group, int64(l.Interval())) {
		return false
	}
	note := l.Note()
	id := numberOf(note.Load())
	fresh := id == 0
	if fresh {
		id = s.entries.add(entry[L]{lease: l, renewAt: never, at: never})
		note.Store(s.noteOf(id))
	}
	e := s.entries.at(id)
	e.until = s.w.moment(until)
	cost := uint32(l.Weight()) //nolint:gosec // bounded by lock.MaxPermits
	if e.group != 0 {
		s.groups[e.group].cost += int(cost) - int(e.cost)
	}
	e.cost = cost
	switch {
	case group != nil && e.group == 0:
		e.renewAt = never
		s.joinLocked(id, e, numberOf(group.Load()))
	case group == nil && (e.group != 0 || fresh):
		s.leaveLocked(e)
		e.renewAt = s.w.now() + int64(l.Interval())
	}
	s.planLocked(id, e)
	return true
}

// dropLocked ends the keeping of a lease, which is in this shard or in none.
func (s *shard[L]) dropLocked(l L) {
	note := l.Note()
	id := numberOf(note.Load())
	if id == 0 {
		return
	}
	note.Store(0)
	e := s.entries.at(id)
	s.leaveLocked(e)
	s.near.Delete(timed{e.at, id})
	s.entries.remove(id)
}

func (s *shard[L]) hurryLocked(id uint32, e *entry[L]) {
	switch {
	case e.busy:
		e.again = true
	case !e.ready:
		s.readyLocked(id, e)
		s.wakeLocked(0)
	}
}

// readyLocked has an entry renewed as soon as there is room.
func (s *shard[L]) readyLocked(id uint32, e *entry[L]) {
	e.ready = true
	s.ready[e.sort()] = append(s.ready[e.sort()], id)
}

// planLocked has the loop look at an entry when something is to be done for it, or earlier. Nearly every lease is
// renewed before that: then the entry keeps its earlier place in the timeline, and is planned anew when that comes.
func (s *shard[L]) planLocked(id uint32, e *entry[L]) {
	if at := e.planned(); at < e.at {
		s.near.Delete(timed{e.at, id})
		e.at = at
		s.near.ReplaceOrInsert(timed{at, id})
		s.wakeLocked(at)
	}
}

// wakeLocked has the loop look at a time, unless it looks by then anyway.
func (s *shard[L]) wakeLocked(at moment) {
	if at >= s.wakeAt {
		return
	}
	s.wakeAt = at
	s.w.rouse()
}

// next is when the loop has to look again.
func (s *shard[L]) next(now moment) moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAt = min(now+int64(time.Hour), firstOf(s.near))
	if s.w.mayBegin() {
		s.wakeAt = min(s.wakeAt, firstOf(s.rounds))
	}
	for so := range sorts {
		if len(s.ready[so]) > 0 && s.w.mayHurry(so) {
			s.wakeAt = now
		}
	}
	return s.wakeAt
}
