package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// StartRelease implements lock.Store. Members carry it out behind what was asked for the owner before, and go on with
// it if they cannot answer. So it is asked once, and one answer of each member decides what is told. They end the hold
// whatever its fence is: the owner has no other one, and a member may have given a greater fence than was told.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := decides(context.Background(), r.Kind); err != nil {
		go done(lock.Returned{}, about("release", r.Name, err))
		return
	}
	r.Fence = 0
	if r.Next != nil && !r.Kind.Shared() {
		s.startHandoff(r, done)
		return
	}
	r.Next = nil
	b := &ballot[lock.Returned]{asking: true, tries: releaseTries}
	b.decide = func(last bool) func() {
		res, err := b.endedLocked(last)
		if err == nil {
			return nil
		}
		if errors.Is(err, errFreed) {
			err = nil
			for _, v := range b.votes {
				res.Listeners = max(res.Listeners, v.v.Listeners)
			}
		}
		return func() { done(res, about("release", r.Name, err)) }
	}
	b.open(s)
	for _, m := range s.members {
		m.StartRelease(r, func(res lock.Returned, err error) { b.answer(m, res, assumed(res, err)) })
	}
	b.asked()
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

// endedLocked is errFreed if a majority ended a hold, or why it did not; nil if that is not known yet.
//
// That a release ended a hold is told when a majority had it: then nobody else had the name until now. One member that
// had it proves nothing, as it may have taken it late, when the lease was over and others had come and gone.
func (b *ballot[T]) endedLocked(last bool) (res lock.Returned, err error) {
	had, assumed, lacked := 0, 0, 0
	for _, v := range b.votes {
		switch err := v.err; {
		case v.from == nil:
		case err == nil || errors.Is(err, errFreed):
			had++
		case errors.Is(err, errAssumed):
			assumed++
		case !failed(err) && !errors.Is(err, lock.ErrStoreFull): // who is full does not say whether it has it
			lacked++
		}
	}
	switch {
	case had >= b.s.quorum:
		return res, errFreed
	case had+assumed >= b.s.quorum:
		res.Assumed = true
		return res, errFreed
	case lacked > b.spare():
		return res, b.lackingLocked(had > 0)
	case !last:
		return res, nil
	}
	return res, cmp.Or(b.preventingLocked(lock.ErrStoreFull), noMajority(b.tallyLocked()))
}

// lackingLocked is the error of a release when no majority can have had the hold. It was over, if a member had it or
// most give no other reason.
func (b *ballot[T]) lackingLocked(had bool) error {
	best, most := lock.ErrNotHeld, 0
	for _, err := range []error{lock.ErrNotHeld, lock.ErrKindMismatch, lock.ErrStoreFull} {
		if n := b.refusalsLocked(err); n > most {
			best, most = err, n
		}
	}
	if !had && !errors.Is(best, lock.ErrNotHeld) {
		return best
	}
	return lock.ErrOver
}
