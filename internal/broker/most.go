package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A hold may have a max_hold: however its lease is kept, it ends that long after the grant, as a fixed lease of that
// length would. So the store is not asked to keep it longer, and no validity is later than
//
//	start of the call that granted it + max_hold - (max_hold/100 + 2 ms)
//
// The margin is that of the whole max_hold: the client counts it on its own clock from the grant on, and the store
// keeps the hold for all of it. Once a lease lasts until this end it is only verified, so that no renewal that comes
// late carries it further. Answers to heartbeats do not count it any more: the client knows the end. If a renewal was
// late all the same, the hold is released then, see releaseLostLocked.

// most is the end of a hold with a max_hold; zero for others. It never moves.
type most struct {
	until time.Time // no validity is later
	ends  time.Time // the store need not keep it longer
}

// mostFrom is the end of a hold that the store was asked for at start.
func mostFrom(start time.Time, maxHold time.Duration) most {
	return most{until: trusted(start, maxHold), ends: start.Add(maxHold)}
}

// within is ttl, or what is left of the max_hold now if that is less, but at least 1 ms.
func (m most) within(ttl time.Duration, now time.Time) time.Duration {
	if m.ends.IsZero() {
		return ttl
	}
	return max(min(ttl, m.ends.Sub(now)), time.Millisecond)
}

// last is until, or the end of the max_hold if that is earlier.
func (m most) last(until time.Time) time.Time {
	if m.reached(until) {
		return m.until
	}
	return until
}

// reached says whether a time is not before the end.
func (m most) reached(t time.Time) bool { return !m.until.IsZero() && !t.Before(m.until) }

// limitLocked gives the lease a max_hold, if it has none. It lasts at least until the end that its client was told.
func (l *Lease) limitLocked(start time.Time, maxHold time.Duration) {
	if maxHold <= 0 || !l.most.until.IsZero() {
		return
	}
	own := l.own()
	own.most = mostFrom(start, maxHold)
	own.extended = true
	if l.until.After(own.most.until) {
		own.most = mostFrom(start, lasting(l.until.Sub(start)))
	}
}

// renewalLocked is the TTL of a renewal of an auto lease now: until one session TTL after its client was last heard. 0
// only verifies it.
func (l *Lease) renewalLocked(now time.Time) time.Duration {
	ttl := max(l.sess.AutoEnd().Sub(now), 0)
	if l.most.reached(l.until) || ttl == 0 {
		return 0
	}
	return l.most.within(ttl, now)
}

// lasting is the TTL with which a lease is trusted for d: the reverse of trusted.
func lasting(d time.Duration) time.Duration {
	d += 2 * time.Millisecond
	return d + d/99 + 1
}

// endedLocked is why a lease was lost: its max_hold if that is over, whoever noticed, else reason. LostForbidden stays.
func (l *Lease) endedLocked(reason lock.LostReason) lock.LostReason {
	if l.most.reached(time.Now()) && reason != lock.LostForbidden {
		return lock.LostMaxHold
	}
	return reason
}
