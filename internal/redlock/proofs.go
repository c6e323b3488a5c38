package redlock

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

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

func (s set) len() int { return bits.OnesCount32(uint32(s)) }

// proofs are those of releases whose outcome was unknown.
type proofs struct {
	until atomic.Int64 // when the last of those that are known may be forgotten; most calls look at nothing else

	mu    sync.Mutex // guards the field below
	known map[proofOf]lateProof
}

// proofOf says which Return it is.
type proofOf struct {
	holding
	fence lock.Fence
}

type lateProof struct {
	proof
	end time.Time // when it may be forgotten
}

// proofTime is how long after a release that was not answered another try may come.
const proofTime = time.Minute

// none says that there are no proofs.
func (ps *proofs) none() bool {
	until := ps.until.Load()
	return until == 0 || time.Now().UnixNano() > until
}

func (ps *proofs) of(r lock.Return) proof {
	if ps.none() {
		return proof{}
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.known[proofOf{holding{r.Name, r.Owner}, r.Fence}].proof
}

// note remembers what is known of a release whose outcome is unknown. It is called with the mutex of the ballot, so
// that late hears of all votes that come afterwards.
func (ps *proofs) note(r lock.Return, p proof) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	if ps.none() {
		ps.known = nil
	} else if len(ps.known) >= maxOdd {
		for of, p := range ps.known {
			if now.After(p.end) {
				delete(ps.known, of)
			}
		}
	}
	if ps.known == nil {
		ps.known = make(map[proofOf]lateProof)
	}
	if len(ps.known) < maxOdd { // what is more is as if it were not known
		end := now.Add(proofTime)
		ps.known[proofOf{holding{r.Name, r.Owner}, r.Fence}] = lateProof{p, end}
		ps.until.Store(end.UnixNano())
	}
}

// late takes the answer of a member to a call whose outcome was unknown.
func (ps *proofs) late(r lock.Return, m *member, err error) {
	if err != nil && !errors.Is(err, errFreed) || ps.none() {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	of := proofOf{holding{r.Name, r.Owner}, r.Fence}
	if p, ok := ps.known[of]; ok {
		p.had.add(m.number)
		ps.known[of] = p
	}
}

// forget is called when the outcome is known, or the owner has a newer hold.
func (ps *proofs) forget(r lock.Return) {
	if ps.none() {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.known, proofOf{holding{r.Name, r.Owner}, r.Fence})
	if len(ps.known) == 0 {
		ps.until.Store(0)
	}
}
