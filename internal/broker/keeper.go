package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Keeper keeps leases alive and ends those that are lost. It is declared here, by its only caller; watchdog implements
// it. None of its methods blocks or calls back. Calls of Keep and Drop for one lease never overlap.
type Keeper interface {
	// Keep begins to keep a lease that is valid until a time, or notes that its validity or its mode changed.
	Keep(l *Lease, until time.Time)
	// Drop ends the keeping. The lease may still be told of a renewal under way, and ignores it.
	Drop(l *Lease)
	// Hurry renews a lease now instead of at its time.
	Hurry(l *Lease)
	// Heard renews the leases of a group from now on, spread over a tenth of their TTL.
	Heard(group *lock.Note)
}

// Note is what the Keeper notes of the lease.
func (l *Lease) Note() *lock.Note { return &l.note }

// Group is what the Keeper notes of the session, for an auto lease: those of a session are renewed together. It is nil
// for a fixed lease, which is verified by itself. The mutex of its name is held.
func (l *Lease) Group() *lock.Note {
	if l.auto {
		return l.sess.Note()
	}
	return nil
}

// Interval is the time between two renewals.
func (l *Lease) Interval() time.Duration { return l.sess.HeartbeatInterval() }

// Weight is what it costs to renew it, in exclusive locks. The mutex of its name is held.
func (l *Lease) Weight() int { return lock.Weight(l.kind, l.permits) }

// Name is the lock, for logs.
func (l *Lease) Name() string { return l.name }

// Renewals sets rs to the renewals that would keep ls now, and until to the end of each validity: zero for a lease that
// is over. An auto lease is prolonged to one session TTL after its client was last heard, a fixed one is only verified,
// and so is one that lasts until its max_hold ends. Once the store is back each gets what it had left, see
// forgottenLocked.
func (l *Lease) Renewals(now time.Time, ls []*Lease, rs []lock.Renewal, until []time.Time) {
	lockEach(ls, func(i int, l *Lease) {
		if l.over {
			return
		}
		rs[i] = l.verification()
		if l.auto {
			rs[i].TTL = l.renewalLocked(now)
		}
		rs[i].TTL = max(rs[i].TTL, l.forgottenLocked(now))
		until[i] = l.until
	})
}

// forgottenLocked is for how long the store is to keep a hold that it has not confirmed since it was away; 0 for
// others. A server that took the place of another one, or was restarted, may have the hold but have forgotten that it
// was prolonged: then it would end before the time that its holder was told.
func (l *Lease) forgottenLocked(now time.Time) time.Duration {
	left := l.until.Sub(now)
	if left <= 0 || l.seen >= stamp(l.b.back.Load()) {
		return 0
	}
	return l.most.within(lasting(left), now)
}

// verification is the store call that finds out whether the hold is there.
func (l *Lease) verification() lock.Renewal {
	return lock.Renewal{
		Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Permits: l.permits, Seen: l.b.time(l.seen),
		Tenant: l.sess.Share(),
	}
}

// Renewed notes renewals whose call began at start, and sets until to when each lease's validity ends now.
func (l *Lease) Renewed(start time.Time, ls []*Lease, rs []lock.Renewal, until []time.Time) {
	lockEach(ls, func(i int, l *Lease) {
		if l.over {
			return
		}
		l.renewedLocked(start, rs[i])
		until[i] = l.until
	})
}

func (l *Lease) renewedLocked(start time.Time, r lock.Renewal) {
	l.seen = max(l.seen, l.b.stamp(start))
	if r.TTL > 0 && !l.shortening && !start.Before(l.changed) {
		l.lastLocked(trusted(start, r.TTL))
	}
	if l.doubted && !l.doubtedLocked() {
		l.believeLocked()
	}
	l.sess.Renewed(l)
}

// Reduced says whether permits were released since a time. A renewal that began before asks for more than there are.
func (l *Lease) Reduced(since time.Time) bool {
	l.lock()
	defer l.unlock()
	return !l.reduced.Before(since)
}

// Lose ends a lease that is held no more. It does nothing to one that is being released. An auto lease that could not
// be renewed because no majority could be reached was lost for that reason.
func (l *Lease) Lose(reason lock.LostReason) {
	l.lock()
	defer l.unlock()
	if reason == lock.LostExpired && l.auto && l.b.noQuorum.Load() {
		reason = lock.LostQuorum
	}
	if l.over {
		return
	}
	l.loseLocked(reason)
}

// keepLocked tells the Keeper and the session that the validity or the mode of the lease changed.
func (l *Lease) keepLocked() {
	l.b.keeper.Keep(l, l.until)
	l.sess.Count(l)
}
