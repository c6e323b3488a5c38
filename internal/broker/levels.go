package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A holder may read several times over. As with Redisson each of these holds has a lease of its own, fixed or auto, and
// the lock lasts as long as the longest of those that were not given back. They are given back in the reverse order. A
// further hold of another kind prolongs the only lease there is.

// level is one of several read holds of a holder.
type level struct {
	until time.Time // validity
	auto  bool
}

// onceMoreLocked notes a further hold.
func (l *Lease) onceMoreLocked(until time.Time, auto bool) {
	l.count++
	if l.kind != lock.Read {
		l.auto = l.auto || auto
		if until.After(l.until) {
			l.until = until
		}
		return
	}
	if l.levels == nil {
		l.own().levels = []level{{l.until, l.auto}}
	}
	// the new hold may be taken back at any time: only the older ones are trusted
	if l.lateReturn && until.After(l.until) {
		until = l.until
	}
	l.own().levels = append(l.levels, level{until, auto})
	l.sumLocked()
}

// sumLocked makes the lease what its levels are together.
func (l *Lease) sumLocked() {
	l.until, l.auto = l.levels[0].until, l.levels[0].auto
	for _, v := range l.levels[1:] {
		if v.until.After(l.until) {
			l.until = v.until
		}
		l.auto = l.auto || v.auto
	}
}

// autoLevel is the number of the hold that is renewed, counted from 1: the first auto one, which outlives the others. 0
// stands for the only lease there is.
func (l *Lease) autoLevel() uint32 {
	for i, v := range l.levels {
		if v.auto {
			return uint32(i) + 1 //nolint:gosec // at most MaxHolds
		}
	}
	return 0
}

// autoUntilLocked is until when the lock lasts while the hold that is renewed is not given back: so long last the older
// ones as well.
func (l *Lease) autoUntilLocked() time.Time {
	at := l.autoLevel()
	if at == 0 {
		return l.until
	}
	until := l.levels[at-1].until
	for _, older := range l.levels[:at-1] {
		if older.until.After(until) {
			until = older.until
		}
	}
	return until
}

// lastLocked prolongs the validity of one of several holds, or of the only lease there is, to a time until which the
// store has it. That hold may have been released meanwhile.
func (l *Lease) lastLocked(until time.Time, at uint32) {
	end := &l.until
	at = max(at, 1)
	if at > 1 && (uint64(at) > uint64(len(l.levels)) || l.lateReturn) {
		return
	}
	if l.levels != nil {
		end = &l.levels[at-1].until
	}
	if until.After(*end) {
		*end = until
	}
	if l.levels != nil {
		l.sumLocked()
	}
}

// endLocked has all holds that have not ended end at a time, as a store does that shortens a lease.
func (l *Lease) endLocked(at time.Time) {
	now := time.Now()
	for i := range l.levels {
		if v := &l.levels[i]; v.until.After(now) {
			v.until = at
		}
	}
	l.until = at
}

// makeAutoLocked makes the lease auto, which is the first hold's then, or fixed, which all holds are then.
func (l *Lease) makeAutoLocked(auto bool) {
	l.auto = auto
	if l.levels == nil {
		return
	}
	l.levels[0].auto = auto
	for i := 1; i < len(l.levels) && !auto; i++ {
		l.levels[i].auto = false
	}
	l.sumLocked()
}

// distrustLocked ends the validity of the last of several read holds, because it is about to be given back. What it
// returns is for the outcome: that gives it back for good, or takes that back if surely nothing was done.
func (l *Lease) distrustLocked() (done func(gone, there bool)) {
	if len(l.levels) < 2 {
		return func(bool, bool) {}
	}
	last := len(l.levels) - 1
	was := l.levels[last]
	set := func(v level) {
		l.levels[last] = v
		l.sumLocked()
		l.keepLocked()
	}
	set(level{})
	return func(gone, there bool) {
		switch {
		case l.over:
		case gone:
			l.own().levels = l.levels[:last]
			l.countLocked()
		case there:
			set(was)
		}
	}
}
