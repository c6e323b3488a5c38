package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What the Store remembers of members and names for a while. Other replicas do not know it, and a restart forgets it.

func holdingOf(c lock.Claim) holding   { return holding{c.Name, c.Owner} }
func releasedBy(r lock.Return) holding { return holding{r.Name, r.Owner} }

// oddHold is a hold that has a greater fence at a member than the one that was told. That is so when others had the
// name there in between, and the hold was put back, or granted late. Calls for such a hold bring the fence that the
// member knows. Other replicas find it out when they renew the hold.
type oddHold struct {
	holdingAt
	told lock.Fence
}

// isOdd remembers the fence that a member gave for a claim that was told with the claim's fence.
func (s *Store) isOdd(m *member, c lock.Claim, there lock.Fence) {
	s.odd.put(oddHold{holdingAt{m.number, holdingOf(c)}, c.Fence}, there, c.TTL+longest)
}

// fenceAt is the fence that a hold has at a member.
func (s *Store) fenceAt(m *member, of holding, told lock.Fence) lock.Fence {
	if told == 0 {
		return told
	}
	if f, odd := s.odd.get(oddHold{holdingAt{m.number, of}, told}); odd {
		return f
	}
	return told
}

// notOdd is called when a hold was released.
func (s *Store) notOdd(r lock.Return) {
	for i := range s.members {
		s.odd.forget(oddHold{holdingAt{i, releasedBy(r)}, r.Fence})
	}
}

// renewalAt is a renewal with the fence that a member knows.
func (s *Store) renewalAt(m *member, r lock.Renewal) lock.Renewal {
	r.Fence = s.fenceAt(m, holding{r.Name, r.Owner}, r.Fence)
	return r
}

// returnAt is a release with the fence that a member knows.
func (s *Store) returnAt(m *member, r lock.Return) lock.Return {
	r.Fence = s.fenceAt(m, releasedBy(r), r.Fence)
	return r
}

// maxAbandoned bounds the owners of failed attempts that are known. One takes some 200 B.
const maxAbandoned = 100_000

// abandon remembers the owners of an attempt that failed, for which members may yet carry out a call: a release, or one
// that raises a fence. A later attempt of the same owner must not take such a fence for that of its own hold. Most
// attempts that fail are not here, because too few members have their fence.
func (s *Store) abandon(keep time.Duration, cs ...lock.Claim) {
	for _, c := range cs {
		if !s.abandoned.put(holdingOf(c), struct{}{}, keep) {
			s.overflow.put(struct{}{}, struct{}{}, keep)
		}
	}
}

// isAbandoned says whether an owner may be such a one. If too many are, everybody may: who asks again for what it has
// is told a greater fence then.
func (s *Store) isAbandoned(h holding) bool { return s.abandoned.has(h) || s.overflow.has(struct{}{}) }

// undoneWithin is how long after an attempt failed its last release may be carried out:
//
//	CallTimeout              until the last member answers the attempt, and is asked to undo it
//	the TTL, or maxTries     for as long the release is repeated (leftovers.go)
//	CallTimeout + underWay   until the last one is over, and what nobody waits for any more
func (s *Store) undoneWithin(ttl time.Duration) time.Duration {
	return 2*s.cfg.CallTimeout + min(ttl, maxTries*(maxRetry+s.cfg.CallTimeout)) + underWay
}

// underWay is for how long a command may be on its way when nobody waits for its answer any more.
const underWay = 3 * defaultCallTimeout

// isRestored remembers that a hold is being put back at a member. A release may have been there before: a renewal that
// it overtook found nothing, and the hold was put back while other members had it yet. So the member is asked again for
// what is released then. A release that is over before is no such case, because a majority has not got the hold any
// more.
func (s *Store) isRestored(m *member, r lock.Renewal) {
	s.restores.put(holdingAt{m.number, holding{r.Name, r.Owner}}, struct{}{}, 3*s.cfg.CallTimeout)
}

// isForced remembers that a name was freed by force. An acquisition that was under way then may have lost members that
// had said yes. The caller knows of no hold yet that it could verify, so it is not told that it has one.
func (s *Store) isForced(name string) {
	s.forced.put(name, time.Now(), 2*s.cfg.CallTimeout) // no acquisition takes longer
}

// forcedSince says whether one of the names of some claims was freed by force at a time or later.
func (s *Store) forcedSince(cs []lock.Claim, begun time.Time) bool {
	for _, c := range cs {
		if at, known := s.forced.get(c.Name); known && !at.Before(begun) {
			return true
		}
	}
	return false
}

// errForced: who repeats it learns what is left.
var errForced = fmt.Errorf("%w: the name was freed by force meanwhile", lock.ErrOutcomeUnknown)

func isUnknown(err error) bool { return errors.Is(err, lock.ErrOutcomeUnknown) }
