package watchdog

import "github.com/lockd-io/lockd/internal/lock"

const (
	// roundPart is the part of an interval over which a round is spread, and roundPieces into how many pieces it is cut.
	// A piece has leastPiece leases if there are as many.
	roundPart   = 0.3
	roundPieces = 16
	leastPiece  = 256
	// patience is the part of an interval for which a round waits for a sign of life that is due.
	patience = 20
)

// group has leases that are renewed together, in rounds: one after each sign of life of their client, and one when no sign
// of life has come for an interval. A round goes over the leases in pieces, so that not all are renewed in one instant, and
// costs nothing for those that are not due. Watchdog.mu guards it.
type group struct {
	mark     *lock.Mark
	interval moment
	members  []uint32
	next     int    // members[next:end] are still to be renewed in this round
	end      int    // next between rounds
	at       moment // when the next piece is renewed
	began    moment // when this round did
	heard    bool   // this round, or the next one, follows a sign of life
}

// joinLocked puts an entry into a group, new if need be.
func (w *Watchdog[L]) joinLocked(id uint32, e *entry[L], mark *lock.Mark) {
	n := uint32(*mark)
	if n == 0 {
		n = w.addGroupLocked(&group{mark: mark, interval: int64(e.lease.Interval())})
		*mark = lock.Mark(n)
	}
	g := w.groups[n]
	if len(g.members) == 0 {
		g.next, g.end, g.heard = 0, 0, false
		w.roundLocked(n, g, w.now()+g.interval)
	}
	e.group, e.index = n, uint32(len(g.members)) //nolint:gosec // bounded by the locks of a session
	g.members = append(g.members, id)
}

func (w *Watchdog[L]) addGroupLocked(g *group) (n uint32) {
	if last := len(w.freeGroups) - 1; last >= 0 {
		n = w.freeGroups[last]
		w.freeGroups = w.freeGroups[:last]
		w.groups[n] = g
		return n
	}
	w.groups = append(w.groups, g)
	return uint32(len(w.groups) - 1) //nolint:gosec // bounded by the sessions
}

// leaveLocked takes an entry out of its group. Others move up, so that each of them stays before, in or behind the part that
// this round has still to renew.
func (w *Watchdog[L]) leaveLocked(e *entry[L]) {
	if e.group == 0 {
		return
	}
	g, i := w.groups[e.group], int(e.index)
	if i < g.next {
		g.next--
		w.moveLocked(g, g.next, i)
		i = g.next
	}
	if i < g.end {
		g.end--
		w.moveLocked(g, g.end, i)
		i = g.end
	}
	last := len(g.members) - 1
	w.moveLocked(g, last, i)
	if g.members = g.members[:last]; last == 0 && cap(g.members) > leastPiece {
		g.members = nil
	}
	e.group = 0
}

// moveLocked fills the place of a member that is gone, or was moved, with another one, unless that is the same place.
func (w *Watchdog[L]) moveLocked(g *group, from, to int) {
	if from == to {
		return
	}
	g.members[to] = g.members[from]
	w.entries.at(g.members[to]).index = uint32(to) //nolint:gosec // as in joinLocked
}

// roundLocked plans the next piece of a group.
func (w *Watchdog[L]) roundLocked(n uint32, g *group, at moment) {
	g.at = at
	w.rounds.push(timed{at, n})
	w.wakeLocked(at)
}

// pieceLocked takes the next piece of a group's round and plans the one after it. A group that nobody is in any more is
// forgotten.
func (w *Watchdog[L]) pieceLocked(n uint32, now moment) (piece []uint32) {
	g := w.groups[n]
	size := len(g.members)
	if size == 0 {
		*g.mark = 0
		w.groups[n] = nil
		w.freeGroups = append(w.freeGroups, n)
		return nil
	}
	if g.next == g.end {
		g.next, g.end, g.began = 0, size, max(g.at, now-g.interval) // not more than one round late
	}
	most := min(max(leastPiece, (size+roundPieces-1)/roundPieces), maxBatch, g.end-g.next)
	piece = g.members[g.next : g.next+most]
	switch g.next += most; {
	case g.next < g.end:
		spread := float64(g.interval) * roundPart * float64(g.next) / float64(g.end)
		w.roundLocked(n, g, g.began+moment(spread))
	case g.heard:
		g.heard = false
		w.roundLocked(n, g, g.began+g.interval+g.interval/patience)
	default:
		w.roundLocked(n, g, g.began+g.interval)
	}
	return piece
}
