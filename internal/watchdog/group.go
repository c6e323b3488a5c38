package watchdog

import "github.com/lockd-io/lockd/internal/lock"

const (
	// roundPart is the part of an interval over which a round is spread, and roundPieces into how many pieces of like cost
	// it is cut. Pieces of a small round may cost leastPiece.
	roundPart   = 0.3
	roundPieces = 16
	leastPiece  = 256
	// patience is the part of an interval for which a round waits for a sign of life that is due.
	patience = 20
)

// group has leases that are renewed together, in rounds: one after each sign of life of their client, and one when no
// sign of life has come for an interval. A round goes over the leases in pieces, so that not all are renewed in one
// instant, and leases that are not due cost nothing. A sign of life during a round does not begin it anew: the round
// goes on, and then goes once more over those that it had renewed before. So none is left out, however slow the store
// is. shard.mu guards it.
type group struct {
	note     *lock.Note
	interval moment
	members  []uint32
	cost     int    // of all members
	again    int    // members[:again] were renewed in this round before the last sign of life
	next     int    // members[next:end] are still to be renewed in this round, and then members[:again]
	end      int    // next between rounds
	done     int    // cost of what was renewed since the round began, or since the last sign of life in it
	total    int    // what done will be at the end of the round
	plan     moment // when the next piece is to be renewed
	at       moment // when its turn comes: not before pieces that wait already
	began    moment // when this round began, or the last sign of life came in it
	heard    bool   // this round, or the next one, follows a sign of life
}

// ensureLocked makes the group of a note if there is none, and says whether the group is in this shard.
func (s *shard[L]) ensureLocked(note *lock.Note, interval moment) bool {
	if m := note.Load(); m != 0 {
		return s.has(m)
	}
	last := len(s.freeGroups) - 1
	if last < 0 {
		s.groups = append(s.groups, nil)
		s.freeGroups = append(s.freeGroups, uint32(len(s.groups)-1)) //nolint:gosec // bounded by the sessions
		last = 0
	}
	n := s.freeGroups[last]
	if !note.CompareAndSwap(0, s.noteOf(n)) { // another lease of the session was quicker, maybe in another shard
		return false
	}
	s.freeGroups = s.freeGroups[:last]
	s.groups[n] = &group{note: note, interval: interval}
	return true
}

// joinLocked puts an entry into a group of this shard.
func (s *shard[L]) joinLocked(id uint32, e *entry[L], n uint32) {
	g := s.groups[n]
	if len(g.members) == 0 {
		g.again, g.next, g.end, g.heard = 0, 0, 0, false
		s.roundLocked(n, g, s.w.now()+g.interval)
	}
	e.group, e.index = n, uint32(len(g.members)) //nolint:gosec // bounded by the locks of a session
	g.members = append(g.members, id)
	g.cost += int(e.cost)
}

// leaveLocked takes an entry out of its group. Other members move up, so that each stays in its part of the list.
func (s *shard[L]) leaveLocked(e *entry[L]) {
	if e.group == 0 {
		return
	}
	g, i := s.groups[e.group], int(e.index)
	g.cost -= int(e.cost)
	for _, part := range []*int{&g.again, &g.next, &g.end} {
		if i < *part {
			*part--
			s.moveLocked(g, *part, i)
			i = *part
		}
	}
	last := len(g.members) - 1
	s.moveLocked(g, last, i)
	if g.members = g.members[:last]; last == 0 && cap(g.members) > leastPiece {
		g.members = nil
	}
	e.group = 0
}

// moveLocked moves a member to the place of one that is gone, or was moved.
func (s *shard[L]) moveLocked(g *group, from, to int) {
	if from == to {
		return
	}
	g.members[to] = g.members[from]
	s.entries.at(g.members[to]).index = uint32(to) //nolint:gosec // as in joinLocked
}

// roundLocked plans the next piece of a group for a time.
func (s *shard[L]) roundLocked(n uint32, g *group, at moment) {
	s.rounds.Delete(timed{g.at, n})
	g.plan, g.at = at, max(at, s.w.now())
	s.rounds.ReplaceOrInsert(timed{g.at, n})
	s.wakeLocked(g.at)
}

// heardLocked begins a round, or has the one under way go on until it has been at all leases once more.
func (s *shard[L]) heardLocked(n uint32) {
	g, now := s.groups[n], s.w.now()
	g.heard = true
	if g.next == g.end && g.again == 0 {
		s.roundLocked(n, g, now)
		return
	}
	g.again, g.end = g.next, len(g.members)
	g.began, g.done, g.total = now, 0, g.cost
}

// pieceLocked takes the next piece of a group's round and plans the one after it. A group that nobody is in any more is
// forgotten.
func (s *shard[L]) pieceLocked(n uint32, now moment) (piece []uint32) {
	g := s.groups[n]
	size := len(g.members)
	if size == 0 {
		g.note.Store(0)
		s.groups[n] = nil
		s.freeGroups = append(s.freeGroups, n)
		return nil
	}
	switch {
	case g.next < g.end:
	case g.again > 0:
		g.next, g.end, g.again = 0, g.again, 0
	default:
		g.next, g.end, g.began = 0, size, max(g.plan, now-g.interval) // not more than one round late
		g.done, g.total = 0, g.cost
	}
	most, cost, from := min(max(leastPiece, (g.cost+roundPieces-1)/roundPieces), maxBatch), 0, g.next
	for g.next < g.end {
		one := int(s.entries.at(g.members[g.next]).cost)
		if cost > 0 && cost+one > most {
			break
		}
		g.next, cost = g.next+1, cost+one
	}
	piece = g.members[from:g.next]
	g.done += cost
	switch {
	case g.next < g.end || g.again > 0:
		spread := float64(g.interval) * roundPart * float64(g.done) / float64(g.total)
		s.roundLocked(n, g, g.began+moment(spread))
	case g.heard:
		g.heard = false
		s.roundLocked(n, g, g.began+g.interval+g.interval/patience)
	default:
		s.roundLocked(n, g, g.began+g.interval)
	}
	return piece
}
