package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What the Store remembers for a while. Other replicas do not know it, and a restart forgets it.

// oddHold is a hold that has a greater fence at a member than the one that was told. That is so when others had the
// name there in between, and the hold was put back, or granted late. Renewals compare fences, as a member may have the
// name by an attempt that failed; so they bring the one that the member knows, as releases do. What is not known here
// is found out when the hold is put back.
type oddHold struct {
	member int
	name   string
	owner  lock.Owner
	told   lock.Fence
}

// oddTime is for how long the fence of such a hold is known at least.
const oddTime = 10 * time.Minute

// isOdd remembers the fence that a member gave for a claim that was told with the claim's fence.
func (s *Store) isOdd(m *member, c lock.Claim, there lock.Fence) {
	s.odd.put(oddHold{m.number, c.Name, c.Owner, c.Fence}, there, c.TTL+oddTime)
}

// renewalAt is a renewal with the fence that a member knows.
func (s *Store) renewalAt(m *member, r lock.Renewal) lock.Renewal {
	if f, odd := s.odd.get(oddHold{m.number, r.Name, r.Owner, r.Fence}); odd {
		r.Fence = f
	}
	return r
}

// returnAt is a release with that fence.
func (s *Store) returnAt(m *member, r lock.Return) lock.Return {
	if f, odd := s.odd.get(oddHold{m.number, r.Name, r.Owner, r.Fence}); odd {
		r.Fence = f
	}
	return r
}

// underWay is for how long a command may be on its way when nobody waits for its answer any more.
const underWay = 3 * defaultCallTimeout

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
