package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	return wait(ctx, func(done func(lock.Returned, error)) { s.StartRelease(r, done) }, func(res lock.Returned) {
		if res.HandedOver != 0 {
			next := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Tenant: r.Tenant}
			s.giveBack([]lock.Claim{next}, []lock.Grant{{Fence: res.HandedOver}})
		}
	})
}

func releaseFailed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("release %q: %w", name, err)
}

// StartRelease implements lock.Store. Members carry it out behind what was asked for the owner before, and go on with
// it if they cannot answer. So it is asked once, and one answer of each member decides what is told.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := decides(r.Kind); err != nil {
		go done(lock.Returned{}, releaseFailed(r.Name, err))
		return
	}
	if r.Next != nil && !r.Kind.Shared() {
		s.startHandOver(r, done)
		return
	}
	r.Next = nil
	x := &release{r: r, told: done}
	x.decide, x.late, x.asking, x.tries = x.verdict, x.answeredLate, true, releaseTries
	x.open(s)
	for _, m := range s.members {
		m.StartRelease(s.returnAt(m, r), func(res lock.Returned, err error) { x.answer(m, res, assumed(res, err)) })
	}
	x.asked()
}

// releaseTries is how much longer than usual is waited for those that have not answered and decide: a member that did
// not hear of it asks again by itself.
const releaseTries = 3

// errFreed: the hold was ended, and handed over to nobody. errAssumed: likewise, if it was there.
var (
	errFreed   = errors.New("it was freed and not handed over")
	errAssumed = fmt.Errorf("%w: an earlier call may have ended the hold", lock.ErrOutcomeUnknown)
)

// assumed is the error of a member that found nothing at a call after one of unknown outcome.
func assumed(res lock.Returned, err error) error {
	if err == nil && res.Assumed {
		return errAssumed
	}
	return err
}

// release is one Return at all members.
type release struct {
	ballot[lock.Returned]
	r    lock.Return
	told func(lock.Returned, error)
	over bool // the owner has nothing any more; guarded by mu
}

// verdict is what the votes amount to, as ballot.decide has it. mu is held.
func (x *release) verdict(last bool) (then func()) {
	res, err := x.ended(last)
	if err == nil {
		return nil
	}
	x.over = isOver(err)
	if errors.Is(err, errFreed) {
		err = nil
		for _, v := range x.votes {
			res.Listeners = max(res.Listeners, v.v.Listeners)
		}
	}
	again := x.unsure(x.over, x.r)
	return func() {
		again()
		x.told(res, releaseFailed(x.r.Name, err))
	}
}

func (x *release) answeredLate(m *member, v vote[lock.Returned]) {
	x.mu.Lock()
	again := x.over && notEnded(v.err)
	x.mu.Unlock()
	if again {
		x.s.releaseAny(m, x.r)
	}
}

// isOver says whether an owner has nothing any more when a release had this outcome.
func isOver(err error) bool {
	return err == nil || errors.Is(err, errFreed) || errors.Is(err, lock.ErrNotHeld)
}

// notEnded says whether a member that said so may have something of the owner: with another fence, as its own could not
// be raised, or was greater.
func notEnded(err error) bool { return failed(err) || errors.Is(err, lock.ErrStale) }

// unsure has those members that have answered, and may have something of the owner when that has nothing any more, be
// asked for it. mu is held.
func (b *ballot[T]) unsure(over bool, r lock.Return) (then func()) {
	var at []*member
	for i, v := range b.votes {
		if over && v.cast && notEnded(v.err) {
			at = append(at, b.s.members[i])
		}
	}
	return func() {
		for _, m := range at {
			b.s.releaseAny(m, r)
		}
	}
}

// releaseAny has a member release whatever an owner has there that has nothing any more. One that repeats itself may
// have asked for the name again meanwhile, elsewhere.
func (s *Store) releaseAny(m *member, r lock.Return) {
	if r.Fence != 0 && !r.Owner.Repeats() {
		r.Fence, r.Next = 0, nil
		s.release(m, r)
	}
}

// ended is errFreed if a majority ended a hold, or why it did not; nil if that is not known yet. mu is held.
//
// That a release ended a hold is told when a majority had it: then nobody else had the name until now. One member that
// had it proves nothing, as it may have taken it late, when the lease was over and others had come and gone.
func (b *ballot[T]) ended(last bool) (res lock.Returned, err error) {
	var had, assumed, stale, lacked set
	for i, v := range b.votes {
		switch err := v.err; {
		case !v.cast:
		case err == nil || errors.Is(err, errFreed):
			had.add(i)
		case errors.Is(err, errAssumed):
			assumed.add(i)
		case errors.Is(err, lock.ErrStale):
			stale.add(i)
		case !failed(err) && !errors.Is(err, lock.ErrStoreFull): // who is full does not say whether it has it
			lacked.add(i)
		}
	}
	if had != 0 { // another fence is that of the same hold
		had |= stale
	} else {
		lacked |= stale
	}
	switch {
	case had.len() >= b.s.quorum:
		return res, errFreed
	case (had | assumed).len() >= b.s.quorum:
		res.Assumed = true
		return res, errFreed
	case lacked.len() > b.spare():
		return res, b.lacking(had)
	case !last:
		return res, nil
	}
	return res, cmp.Or(b.preventing(lock.ErrStoreFull), noMajority(b.tally()))
}

// lacking is the error of a release when no majority can have had the hold. It was over, if a member had it or most
// give no other reason. mu is held.
func (b *ballot[T]) lacking(had set) error {
	best, most := lock.ErrNotHeld, 0
	for _, err := range []error{lock.ErrStale, lock.ErrNotHeld, lock.ErrKindMismatch, lock.ErrStoreFull} {
		if n := b.refusals(err); n > most {
			best, most = err, n
		}
	}
	if had == 0 && !errors.Is(best, lock.ErrNotHeld) {
		return best
	}
	return lock.ErrOver
}
