package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// StartRelease implements lock.Store. Members carry out a release behind what was asked for the owner before, and go on
// with it if its outcome is unknown. So each is asked once, and the first answers decide what is told. They end the
// hold whatever its fence is, because the owner has no other hold, and a member may have given a greater fence than was
// told.
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

// releaseTries is how much longer than usual a release waits for missing votes that would decide it, because members
// repeat a release by themselves if its reply is lost.
const releaseTries = 3

// errFreed: the member ended the hold, and handed it over to nobody. errAssumed: likewise, if the member had the hold.
var (
	errFreed   = errors.New("it was freed and not handed over")
	errAssumed = fmt.Errorf("%w: an earlier call may have ended the hold", lock.ErrOutcomeUnknown)
)

// assumed is the error of a member's answer: errAssumed if Returned.Assumed.
func assumed(res lock.Returned, err error) error {
	if err == nil && res.Assumed {
		return errAssumed
	}
	return err
}

// endedLocked is errFreed if a majority ended the hold, else why it did not; nil if that is not known yet.
//
// A release is told to have ended the hold if a majority had it: then nobody else had the name until now. That one
// member had it proves nothing: the member may have taken the name late, when the lease was over and others had come
// and gone.
func (b *ballot[T]) endedLocked(last bool) (res lock.Returned, err error) {
	had, assumed, lacked := 0, 0, 0
	for _, v := range b.votes {
		switch err := v.err; {
		case v.from == nil:
		case err == nil || errors.Is(err, errFreed):
			had++
		case errors.Is(err, errAssumed):
			assumed++
		case !failed(err) && !errors.Is(err, lock.ErrStoreFull): // a full member does not say whether it had the hold
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

// lackingLocked is the error of a release if no majority can have had the hold: ErrOver, unless no member had it and
// most give another reason.
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
