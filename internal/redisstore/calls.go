package redisstore

import (
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// The keys and arguments of each kind's scripts. The first lines of a script say what each of them is.

func (s *Store) acquireCall(c lock.Claim) script.Call {
	if c.Kind != lock.Exclusive {
		return s.acquireAllCall(c)
	}
	return s.Scripts.Acquire.With(layout.Keys(c.Kind, s.Prefix+c.Name), string(c.Owner), script.Millis(c.TTL),
		uint64(c.Fence), s.FenceMillis)
}

func (s *Store) acquireAllCall(cs ...lock.Claim) script.Call {
	keys := make([]string, 0, 3*len(cs))
	args := make([]any, 0, 1+7*len(cs))
	args = append(args, s.FenceMillis)
	permits := uint32(0)
	for _, c := range cs {
		n, more, one, limit := s.Prefix+c.Name, "", any(""), uint32(0)
		switch c.Kind {
		case lock.Fair:
			more, one = layout.Channel(n), script.MillisOrNone(c.Place)
		case lock.Read:
			more, one = layout.HoldBase(n), string(c.WriteOwner)
		case lock.Write:
			more, one = layout.HoldBase(n), script.MillisOrNone(c.Place)
		case lock.Semaphore:
			more, one, limit = layout.PermitChannel(n), max(c.Permits, 1), c.Limit
			permits += c.Permits
		default:
		}
		keys = append(keys, layout.Keys(c.Kind, n)...)
		args = append(args, c.Kind.String(), string(c.Owner), script.Millis(c.TTL), uint64(c.Fence), more, one, limit)
	}
	call := s.Scripts.AcquireAll.With(keys, args...)
	call.Cost += script.CostOfPermits(permits)
	return call
}

func (s *Store) releaseCall(r lock.Return) script.Call {
	n := s.Prefix + r.Name
	keys := layout.Keys(r.Kind, n)
	if r.Kind == lock.Semaphore {
		permits := s.Scripts.ReleasePermits.With(keys,
			string(r.Owner), r.Permits, layout.PermitChannel(n), script.Decimal(r.Fence), r.Keep)
		permits.Cost += script.CostOfPermits(r.Permits)
		return permits
	}
	if r.Kind == lock.Read {
		return s.Scripts.ReleaseRead.With(keys, string(r.Owner), script.Decimal(r.Fence),
			layout.RWChannel(n), layout.HoldBase(n))
	}
	var next lock.Successor
	if r.Next != nil {
		next = *r.Next
	}
	args := []any{
		string(r.Owner), script.Decimal(r.Fence), string(next.Owner), script.Millis(next.TTL), s.FenceMillis,
	}
	switch r.Kind {
	case lock.Fair:
		return s.Scripts.ReleaseFair.With(keys, append(args, layout.Channel(n), script.MillisOrNone(r.Place))...)
	case lock.Write:
		return s.Scripts.ReleaseWrite.With(keys,
			append(args, layout.RWChannel(n), layout.HoldBase(n), uint64(next.Fence))...)
	default:
		return s.Scripts.Release.With(append(keys, layout.Channel(n)), append(args, uint64(next.Fence))...)
	}
}

func (s *Store) forceCall(n string, kind lock.Kind, before int64) script.Call {
	keys := layout.Keys(kind, n)
	args := []any{layout.Control, s.forcedMark + n}
	switch kind {
	case lock.Fair:
		return s.Scripts.ForceFair.With(keys, append(args, layout.Channel(n), before)...)
	case lock.Read, lock.Write:
		return s.Scripts.ForceRW.With(keys,
			append(args, layout.RWChannel(n), kind.String(), layout.HoldBase(n), before)...)
	case lock.Semaphore:
		return s.Scripts.ForcePermit.With(keys, append(args, layout.PermitChannel(n), before)...)
	default:
		return s.Scripts.Force.With([]string{n, layout.Channel(n), layout.Token(n)}, append(args, before)...)
	}
}
