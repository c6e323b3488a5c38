package redisstore

import "github.com/lockd-io/lockd/internal/lock"

// What the scripts of each kind are called with. Their first lines say what each argument is.

func (s *Store) acquireCall(c lock.Claim) (sc *script, keys []string, args []any) {
	n := s.prefix + c.Name
	if c.Kind == lock.Semaphore {
		return s.scripts.acquirePermits, permitKeys(n), []any{
			string(c.Owner), max(c.Permits, 1), millis(c.TTL), c.Limit, s.fenceMillis, permitChannel(n),
		}
	}
	args = []any{string(c.Owner), c.Count, millis(c.TTL), uint64(c.Fence), s.fenceMillis}
	switch c.Kind {
	case lock.Fair:
		return s.scripts.acquireFair, fairKeys(n), append(args, placeMillis(c), channelKey(n))
	case lock.Read:
		return s.scripts.acquireRead, rwKeys(n), append(args, string(c.Beside), holdBase(n))
	case lock.Write:
		return s.scripts.acquireWrite, rwKeys(n), append(args, placeMillis(c), holdBase(n))
	default:
		return s.scripts.acquire, plainKeys(n), args
	}
}

// placeMillis is for how long a refused claim keeps a place, in ms.
func placeMillis(c lock.Claim) int64 {
	if c.Place <= 0 {
		return 0
	}
	return millis(c.Place)
}

func (s *Store) releaseCall(r lock.Return) (sc *script, keys []string, args []any) {
	n := s.prefix + r.Name
	if r.Kind == lock.Semaphore {
		return s.scripts.releasePermits, permitKeys(n), []any{string(r.Owner), r.Permits, permitChannel(n), decimal(r.Fence), r.Remaining}
	}
	if r.Kind == lock.Read {
		return s.scripts.releaseRead, rwKeys(n),
			[]any{string(r.Owner), decimal(r.Fence), r.Remaining, rwChannel(n), holdBase(n)}
	}
	var next lock.Successor
	if r.Next != nil && r.Remaining == 0 {
		next = *r.Next
	}
	args = []any{string(r.Owner), decimal(r.Fence), r.Remaining, string(next.Owner), millis(next.TTL), s.fenceMillis}
	switch r.Kind {
	case lock.Fair:
		return s.scripts.releaseFair, fairKeys(n), append(args, channelKey(n))
	case lock.Write:
		return s.scripts.releaseWrite, rwKeys(n), append(args, rwChannel(n), holdBase(n))
	default:
		return s.scripts.release, []string{n, tokenKey(n), channelKey(n)}, args
	}
}

func (s *Store) forceCall(n string, kind lock.Kind) (sc *script, keys []string, args []any) {
	args = []any{controlChannel, s.forcedMark + n}
	switch kind {
	case lock.Fair:
		return s.scripts.forceFair, fairKeys(n), append(args, channelKey(n))
	case lock.Read, lock.Write:
		return s.scripts.forceRW, rwKeys(n), append(args, rwChannel(n), kind.String(), holdBase(n))
	case lock.Semaphore:
		return s.scripts.forcePermit, permitKeys(n), append(args, permitChannel(n))
	default:
		return s.scripts.force, []string{n, channelKey(n), tokenKey(n)}, args
	}
}
