package redlock

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// refusalLocked is why an attempt is refused, if a majority said yes or no and some refused; nil if too few answer. A
// hold in the way counts more than what few members say, because whoever waits for its end is granted the name without
// them.
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

// misfits are the refusals that are not about who has the name.
var misfits = []error{
	lock.ErrKindMismatch, lock.ErrStoreFull, lock.ErrNotHeld, lock.ErrUnsupported, lock.ErrInvalid,
}

// clearLocked says whether it is clear why there is no majority: so many refuse for one reason. One owner in the way is
// such a reason. To the owner of a hold that is handed over it is enough that any member freed it.
func (a *attempt) clearLocked(st standing) bool {
	if st.no <= a.spare() {
		return false
	}
	all, most := a.inTheWayLocked()
	return len(most) > a.spare() && (len(most) == len(all) || len(most) >= a.s.quorum) ||
		a.preventingLocked(misfits...) != nil || a.why != nil && a.refusalsLocked(errFreed) > 0
}

// inTheWayLocked are the holds in the way, those that end first in front, and those of the owner that has most of them.
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

// heldLocked is who is in the way. A majority may be free when so many holds have ended as it lacks.
func (a *attempt) heldLocked(st standing) *lock.HeldError {
	all, most := a.inTheWayLocked()
	held := *all[min(max(a.s.quorum-st.yes-st.missing, 1), len(all))-1]
	held.HeldBy = most[0].HeldBy
	held.RetryAfter = trusted(held.RetryAfter)
	if len(most)+st.missing+st.unknown+st.away+st.quarantined < a.s.quorum {
		// Nobody has a majority. The others release what they have in the time that this attempt took, and do not come
		// back all at once.
		took := time.Since(a.start)
		again := took + rand.N(3*took+fewPause/5) //nolint:gosec // it need not be a secret
		held.RetryAfter = min(lasting(held.RetryAfter), again)
	}
	return &held
}
