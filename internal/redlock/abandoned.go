package redlock

import (
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// abandoned are owners with a failed attempt whose calls may be on their way to members: a release, or a call that
// raises a fence. A later attempt of the owner must not take such a fence for the one of its own hold. Most failed
// attempts are not here: too few members have their fence for that.
type abandoned struct {
	mu    sync.Mutex // guards the fields below
	until map[holding]time.Time
	of    map[string]int // how many of them each tenant has
	room  int            // how many there are when it looks next which of them are over
	swept time.Time
}

const (
	// maxAbandoned bounds them. One takes some 250 B, all take 25 MB.
	maxAbandoned = 100_000
	// sweepPause is the least time between two looks at all of them, and fewAbandoned is how many are not looked at.
	sweepPause   = time.Second
	fewAbandoned = 1000
)

// note takes note of owners of one tenant until a time, and says whether it did: all, or none if there are too many. A
// tenant has half of what is left at most, so that those of one are not in the way of another. With beyond there may be
// twice as many.
func (a *abandoned) note(cs []lock.Claim, until func(lock.Claim) time.Time, beyond bool) (noted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweepLocked(len(a.until)+len(cs) > max(a.room, fewAbandoned))
	more := 0
	for _, c := range cs {
		if _, there := a.until[holding{c.Name, c.Owner}]; !there {
			more++
		}
	}
	tenant := cs[0].Owner.Tenant()
	if more > 0 && !a.roomLocked(tenant, more, beyond) {
		if a.sweepLocked(true); !a.roomLocked(tenant, more, beyond) {
			return false
		}
	}
	if a.until == nil {
		a.until, a.of = make(map[holding]time.Time), make(map[string]int)
	}
	for _, c := range cs {
		h := holding{c.Name, c.Owner}
		before, there := a.until[h]
		if !there {
			a.of[c.Owner.Tenant()]++
		}
		if end := until(c); !there || end.After(before) {
			a.until[h] = end
		}
	}
	return true
}

// roomLocked says whether so many more of a tenant fit in.
func (a *abandoned) roomLocked(tenant string, more int, beyond bool) bool {
	if beyond {
		return len(a.until)+more <= 2*maxAbandoned
	}
	return 2*(a.of[tenant]+more) <= maxAbandoned-len(a.until)
}

// sweepLocked forgets those that are over, if that is needed and was not done a moment ago.
func (a *abandoned) sweepLocked(needed bool) {
	now := time.Now()
	if !needed || now.Sub(a.swept) < sweepPause {
		return
	}
	a.swept = now
	for h, end := range a.until {
		if now.After(end) {
			delete(a.until, h)
			a.forgetLocked(h.owner.Tenant())
		}
	}
	if len(a.until) == 0 {
		a.until, a.of = nil, nil // a map keeps its size
	}
	a.room = min(2*len(a.until), maxAbandoned)
}

// forgetLocked has a tenant have one less.
func (a *abandoned) forgetLocked(tenant string) {
	if a.of[tenant]--; a.of[tenant] == 0 {
		delete(a.of, tenant)
	}
}

// has says whether an attempt of the same owner failed so.
func (a *abandoned) has(c lock.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, failed := a.until[holding{c.Name, c.Owner}]
	return failed
}

// len is how many there are.
func (a *abandoned) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.until)
}

// abandon takes note that what an attempt has at members is about to be released. If too many are known, it says so:
// then it must not be released.
func (s *Store) abandon(cs ...lock.Claim) (noted bool) {
	now := time.Now()
	return s.abandoned.note(cs, func(c lock.Claim) time.Time { return now.Add(s.undoneWithin(c.TTL)) }, false)
}

// abandonRaised takes note that the fences of an attempt may be raised yet. That cannot be stopped any more, so it is
// noted beyond the bound.
func (s *Store) abandonRaised(cs []lock.Claim) {
	end := time.Now().Add(2*s.cfg.CallTimeout + underWay) // a member that answers late is asked then
	s.abandoned.note(cs, func(lock.Claim) time.Time { return end }, true)
}

// undoneWithin is how long after an attempt failed its last release may be carried out:
//
//	CallTimeout              until the last member answers the attempt, and is asked to undo it
//	the TTL, or maxTries     for as long the release is repeated (leftovers.go)
//	CallTimeout + underWay   until the last one is over, and what nobody waits for any more
func (s *Store) undoneWithin(ttl time.Duration) time.Duration {
	repeated := min(ttl, maxTries*(maxRetry+s.cfg.CallTimeout))
	return 2*s.cfg.CallTimeout + repeated + underWay
}
