package redisstore

import "github.com/lockd-io/lockd/internal/lock"

// What the scripts of each kind are called with. Their first lines say what each argument is.

func (s *Store) acquireCall(c lock.Claim) call {
	n := s.prefix + c.Name
	if c.Kind == lock.Semaphore {
		permits := s.scripts.acquirePermits.with(permitKeys(n),
			string(c.Owner), max(c.Permits, 1), millis(c.TTL), c.Limit, s.fenceMillis, permitChannel(n))
		permits.cost += costOfPermits(c.Permits)
		return permits
	}
	args := []any{string(c.Owner), c.Count, millis(c.TTL), uint64(c.Fence), s.fenceMillis}
	switch c.Kind {
	case lock.Fair:
		return s.scripts.acquireFair.with(fairKeys(n), append(args, placeMillis(c), channelKey(n))...)
	case lock.Read:
		return s.scripts.acquireRead.with(rwKeys(n), append(args, string(c.Beside), holdBase(n))...)
	case lock.Write:
		return s.scripts.acquireWrite.with(rwKeys(n), append(args, placeMillis(c), holdBase(n))...)
	default:
		return s.scripts.acquire.with(plainKeys(n), args...)
	}
}

// placeMillis is for how long a refused claim keeps a place, in ms.
func placeMillis(c lock.Claim) int64 {
	if c.Place <= 0 {
		return 0
	}
	return millis(c.Place)
}

func (s *Store) releaseCall(r lock.Return) call {
	n := s.prefix + r.Name
	if r.Kind == lock.Semaphore {
		permits := s.scripts.releasePermits.with(permitKeys(n),
			string(r.Owner), r.Permits, permitChannel(n), decimal(r.Fence), r.Remaining)
		permits.cost += costOfPermits(r.Permits)
		return permits
	}
	if r.Kind == lock.Read {
		return s.scripts.releaseRead.with(rwKeys(n), string(r.Owner), decimal(r.Fence), r.Remaining, rwChannel(n), holdBase(n))
	}
	var next lock.Successor
	if r.Next != nil && r.Remaining == 0 {
		next = *r.Next
	}
	args := []any{string(r.Owner), decimal(r.Fence), r.Remaining, string(next.Owner), millis(next.TTL), s.fenceMillis}
	switch r.Kind {
	case lock.Fair:
		return s.scripts.releaseFair.with(fairKeys(n), append(args, channelKey(n))...)
	case lock.Write:
		return s.scripts.releaseWrite.with(rwKeys(n), append(args, rwChannel(n), holdBase(n))...)
	default:
		return s.scripts.release.with([]string{n, tokenKey(n), channelKey(n)}, args...)
	}
}

func (s *Store) forceCall(n string, kind lock.Kind) call {
	args := []any{controlChannel, s.forcedMark + n}
	switch kind {
	case lock.Fair:
		return s.scripts.forceFair.with(fairKeys(n), append(args, channelKey(n))...)
	case lock.Read, lock.Write:
		return s.scripts.forceRW.with(rwKeys(n), append(args, rwChannel(n), kind.String(), holdBase(n))...)
	case lock.Semaphore:
		return s.scripts.forcePermit.with(permitKeys(n), append(args, permitChannel(n))...)
	default:
		return s.scripts.force.with([]string{n, channelKey(n), tokenKey(n)}, args...)
	}
}
