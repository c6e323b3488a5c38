package redlock

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// abandoned knows the owners of failed attempts for which members may yet carry out a call: a release, or one that
// raises a fence. A later attempt of the same owner must not take such a fence for that of its own hold. Most failed
// attempts are not here, because too few members have their fence.
type abandoned struct {
	memory[holding, struct{}]

	of map[string]int // how many each tenant has; guarded by mu
}

// maxAbandoned bounds them. One takes some 250 B, all take 25 MB.
const maxAbandoned = 100_000

func newAbandoned() *abandoned {
	a := &abandoned{of: make(map[string]int)}
	a.most = maxAbandoned
	a.forgot = func(h holding) {
		tenant := h.owner.Tenant()
		if a.of[tenant]--; a.of[tenant] == 0 {
			delete(a.of, tenant)
		}
	}
	return a
}

// add remembers the owners of some claims for so long, and says whether it did: all, or none if there are too many. A
// tenant has half of what is left at most, so that it leaves room for others. With beyond there may be twice as many.
func (a *abandoned) add(cs []lock.Claim, keep time.Duration, beyond bool) (added bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweepLocked(len(a.known)+len(cs) > max(a.room, fewKnown))
	more := 0
	for _, c := range cs {
		if _, there := a.known[holdingOf(c)]; !there {
			more++
		}
	}
	tenant := cs[0].Owner.Tenant()
	if more > 0 && !a.roomLocked(tenant, more, beyond) {
		if a.sweepLocked(true); !a.roomLocked(tenant, more, beyond) {
			return false
		}
	}
	for _, c := range cs {
		h := holdingOf(c)
		if _, there := a.known[h]; !there {
			a.of[tenant]++
		}
		a.putLocked(h, struct{}{}, keep)
	}
	return true
}

// roomLocked says whether so many more of a tenant fit in.
func (a *abandoned) roomLocked(tenant string, more int, beyond bool) bool {
	if beyond {
		return len(a.known)+more <= 2*maxAbandoned
	}
	return 2*(a.of[tenant]+more) <= maxAbandoned-len(a.known)
}

// abandon remembers that what an attempt has at members is about to be released. It says no if too many are known: then
// it must not be released.
func (s *Store) abandon(cs ...lock.Claim) bool {
	var keep time.Duration
	for _, c := range cs {
		keep = max(keep, s.undoneWithin(c.TTL))
	}
	return s.abandoned.add(cs, keep, false)
}

// abandonRaised remembers that the fences of an attempt may be raised yet. That cannot be stopped any more, so it is
// remembered beyond the bound. A member that answers late is asked then.
func (s *Store) abandonRaised(cs []lock.Claim) {
	s.abandoned.add(cs, 2*s.cfg.CallTimeout+underWay, true)
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
