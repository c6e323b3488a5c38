package redlock

import (
	"errors"

	"github.com/lockd-io/lockd/internal/lock"
)

// That a release ended a hold is told when a majority had it: then nobody else had the name until now. One member that
// had it proves nothing, as it may have taken it late, when the lease was over and others had come and gone.
//
// A release whose outcome is unknown is made again. The members that ended the hold then say that they have not got it.
// So what they said before counts as well.

// proof is what members said of whether they had a hold, to one or more calls of one Return.
type proof struct {
	had     set // ended it
	stale   set // had it with another fence: it may be about to be raised
	lacked  set // had not got it before any call
	unclear set // a call that was not answered may have ended it there
}

// take takes the answer of a member.
func (p *proof) take(i int, err error) {
	switch {
	case err == nil || errors.Is(err, errFreed):
		p.had.add(i)
	case isUnknown(err):
		p.unclear.add(i)
	case errors.Is(err, lock.ErrStale):
		p.stale.add(i)
	case !failed(err) && !errors.Is(err, lock.ErrStoreFull) && !p.unclear.has(i):
		p.lacked.add(i)
	}
}

// verdict is what a proof amounts to.
type verdict uint8

const (
	undecided verdict = iota // those that are not known decide
	hadIt
	lackedIt
)

// verdict counts where the owner had the name, if one of the members had the hold itself.
func (p proof) verdict(members, quorum int) verdict {
	had, without := p.had|p.stale, p.lacked
	if p.had == 0 {
		had, without = 0, p.lacked|p.stale
	}
	switch {
	case had.len() >= quorum:
		return hadIt
	case members-(without&^had).len() < quorum:
		return lackedIt
	}
	return undecided
}

// proofOf says which Return it is.
type proofOf struct {
	holding
	fence lock.Fence
}

func proofFor(r lock.Return) proofOf { return proofOf{releasedBy(r), r.Fence} }

// proofTime is how long after a release that was not answered another try may come.
const proofTime = 4 * underWay

// proofBefore is what earlier calls of a release learned.
func (s *Store) proofBefore(r lock.Return) proof {
	p, _ := s.proofs.get(proofFor(r))
	return p
}

// answeredBefore takes the answer of a member to a call whose outcome was unknown.
func (s *Store) answeredBefore(r lock.Return, m *member, err error) {
	if err == nil || errors.Is(err, errFreed) {
		s.proofs.change(proofFor(r), func(p proof) proof {
			p.had.add(m.number)
			return p
		})
	}
}

// proof is what is known of who had a hold, with what earlier calls of the same release learned. Who has not answered
// may have it, and earlier calls may be answered late. mu is held.
func (b *ballot[T]) proof(of *ending) proof {
	p := of.before
	p.had |= b.s.proofBefore(of.r).had
	for i, v := range b.votes {
		if v.cast {
			p.take(i, v.err)
		} else {
			p.unclear.add(i)
		}
	}
	return p
}
