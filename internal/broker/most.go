package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A hold may have a max_hold: however its lease is kept, it ends so long after the grant, as a fixed lease of that time
// would. So the store is asked for no more, and no validity is later than
//
//	start of the call that granted it + max_hold - (max_hold/100 + 2 ms)
//
// The margin is that of the whole time: the client counts the end on its own clock, from the grant on, and the store
// keeps the hold for max_hold. Once a lease lasts until its end it is verified only, so that no renewal that comes late
// carries it further, and it counts no more in what heartbeats are answered: the client knows the end. One that was
// late all the same is released at that time, see releaseLostLocked.

// most is the end of a hold with a max_hold; zero for others. It never moves.
type most struct {
	until time.Time // no validity is later
	ends  time.Time // the store need not keep it longer
}

// mostFrom is that of a hold which the store was asked for at start.
func mostFrom(start time.Time, maxHold time.Duration) most {
	return most{until: trusted(start, maxHold), ends: start.Add(maxHold)}
}

// within is how long a call of now may ask the store to keep the hold, at least so long that it is kept.
func (m most) within(ttl time.Duration, now time.Time) time.Duration {
	if m.ends.IsZero() {
		return ttl
	}
	return max(min(ttl, m.ends.Sub(now)), time.Millisecond)
}

// last is a validity, or the end if that is earlier.
func (m most) last(until time.Time) time.Time {
	if m.reached(until) {
		return m.until
	}
	return until
}

// reached says whether a time is not before the end.
func (m most) reached(t time.Time) bool { return !m.until.IsZero() && !t.Before(m.until) }

// limitLocked gives the lease an end, if it has none. What it was told to last for already it lasts.
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

// renewalLocked is for how long a renewal of now is to prolong an auto lease: to one session TTL after its client was
// last heard. 0 only verifies it.
func (l *Lease) renewalLocked(now time.Time) time.Duration {
	ttl := max(l.sess.AutoEnd().Sub(now), 0)
	if l.most.reached(l.until) || ttl == 0 {
		return 0
	}
	return l.most.within(ttl, now)
}

// lasting is the TTL with which a lease is trusted for so long: the reverse of trusted.
func lasting(d time.Duration) time.Duration {
	d += 2 * time.Millisecond
	return d + d/99 + 1
}

// endedLocked is why a lease ended: one that has reached its end was lost for that reason, whoever noticed it.
func (l *Lease) endedLocked(reason lock.LostReason) lock.LostReason {
	if l.most.reached(time.Now()) && reason != lock.LostForbidden {
		return lock.LostMaxHold
	}
	return reason
}
