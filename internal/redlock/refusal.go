package redlock

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// refusalLocked is why an attempt is refused, if a majority said yes or no and some refused; nil if too few answered. A
// hold in the way counts more than other reasons that only few members give, because after its end the name can be
// granted without those.
func (a *attempt) refusalLocked(st standing) error {
	if st.no == 0 || st.definite()+st.quarantined < a.s.quorum {
		return nil
	}
	if err := a.preventingLocked(misfits...); err != nil {
		return err
	}
	if a.refusalsLocked(lock.ErrHeld) > 0 {
		return a.heldLocked(st)
	}
	for _, v := range a.votes { // they differ
		if v.err != nil && !failed(v.err) {
			return v.err
		}
	}
	return nil
}

// misfits are the refusals for other reasons than who has the name.
var misfits = []error{
	lock.ErrKindMismatch, lock.ErrStoreFull, lock.ErrNotHeld, lock.ErrUnsupported, lock.ErrInvalid,
}

// clearLocked says whether it is clear why there is no majority: enough members refuse for one reason, such as one
// owner in the way. For a handoff it is enough that any member freed the name.
func (a *attempt) clearLocked(st standing) bool {
	if st.no <= a.spare() {
		return false
	}
	all, most := a.inTheWayLocked()
	return len(most) > a.spare() && (len(most) == len(all) || len(most) >= a.s.quorum) ||
		a.preventingLocked(misfits...) != nil || a.why != nil && a.refusalsLocked(errFreed) > 0
}

// inTheWayLocked are all holds in the way, those that end first in front, and of these the ones of the owner that has
// most.
func (a *attempt) inTheWayLocked() (all, most []*lock.HeldError) {
	for _, v := range a.votes {
		if held, ok := errors.AsType[*lock.HeldError](v.err); ok {
			all = append(all, held)
		}
	}
	slices.SortFunc(all, func(x, y *lock.HeldError) int {
		return cmp.Compare(lasting(x.RetryAfter), lasting(y.RetryAfter))
	})
	of := map[lock.Owner][]*lock.HeldError{}
	for _, held := range all {
		o := commonOwner(held.HeldBy)
		if of[o] = append(of[o], held); len(of[o]) >= len(most) {
			most = of[o]
		}
	}
	return all, most
}

// heldLocked is who is in the way. RetryAfter is when so many of the holds will have ended that a majority may be free.
func (a *attempt) heldLocked(st standing) *lock.HeldError {
	all, most := a.inTheWayLocked()
	held := *all[min(max(a.s.quorum-st.yes-st.missing, 1), len(all))-1]
	held.HeldBy = most[0].HeldBy
	held.RetryAfter = trusted(held.RetryAfter)
	if len(most)+st.missing+st.unknown+st.away+st.quarantined < a.s.quorum {
		// Nobody has a majority. The other attempts undo theirs in about the time that this one took. The pause is random, so
		// that they do not all come back at once.
		took := time.Since(a.start)
		again := took + rand.N(3*took+fewPause/5) //nolint:gosec // it need not be a secret
		held.RetryAfter = min(lasting(held.RetryAfter), again)
	}
	return &held
}
