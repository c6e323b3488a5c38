package redlock

import (
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// abandoned are owners of whom an attempt failed, while releases with fences that it had at members, or calls that
// raise them, may be under way. A later attempt of the owner could take such a fence for that of a hold which it has.
// Most attempts that fail are not here: so few members have the fence that was proposed that no later attempt can take
// it for its own.
type abandoned struct {
	mu    sync.Mutex // guards the fields below
	until map[holding]time.Time
	room  int // how many there are when it looks next which of them are over
	swept time.Time
}

const (
	// maxAbandoned bounds them. One takes some 250 B, all take 25 MB.
	maxAbandoned = 100_000
	// sweepPause is the least time between two looks at all of them, and fewAbandoned is how many are not looked at.
	sweepPause   = time.Second
	fewAbandoned = 1000
)

// note takes note of owners until a time, and says whether it did: all, or none if there are too many. With beyond
// there may be twice as many.
func (a *abandoned) note(cs []lock.Claim, until func(lock.Claim) time.Time, beyond bool) (noted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweepLocked(len(cs))
	most := maxAbandoned
	if beyond {
		most *= 2
	}
	more := 0
	for _, c := range cs {
		if _, there := a.until[holding{c.Name, c.Owner}]; !there {
			more++
		}
	}
	if more > 0 && len(a.until)+more > most {
		return false
	}
	if a.until == nil {
		a.until = make(map[holding]time.Time)
	}
	for _, c := range cs {
		h := holding{c.Name, c.Owner}
		if end := until(c); end.After(a.until[h]) {
			a.until[h] = end
		}
	}
	return true
}

// sweepLocked forgets those that are over, if so many more do not fit in.
func (a *abandoned) sweepLocked(more int) {
	now := time.Now()
	if len(a.until)+more <= max(a.room, fewAbandoned) || now.Sub(a.swept) < sweepPause {
		return
	}
	a.swept = now
	for h, end := range a.until {
		if now.After(end) {
			delete(a.until, h)
		}
	}
	if len(a.until) == 0 {
		a.until = nil // a map keeps its size
	}
	a.room = min(2*len(a.until), maxAbandoned)
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
