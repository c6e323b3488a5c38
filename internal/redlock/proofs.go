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

func (p proof) verdict(members, quorum int) verdict {
	had := p.had.len()
	without := (p.lacked &^ p.had).len()
	switch {
	case had >= quorum:
		return hadIt
	case members-without < quorum:
		return lackedIt
	}
	return undecided
}

func (s set) len() int { return bits.OnesCount32(uint32(s)) }

// proofs are those of releases whose outcome was unknown.
type proofs struct {
	count atomic.Int64 // of those that are known; most calls look at nothing else

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

func (ps *proofs) of(r lock.Return) proof {
	if ps.count.Load() == 0 {
		return proof{}
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.known[proofOf{holding{r.Name, r.Owner}, r.Fence}].proof
}

// note remembers what is known of a release whose outcome is unknown.
func (ps *proofs) note(r lock.Return, p proof) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	if len(ps.known) >= maxOdd {
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
		ps.known[proofOf{holding{r.Name, r.Owner}, r.Fence}] = lateProof{p, now.Add(proofTime)}
	}
	ps.count.Store(int64(len(ps.known)))
}

// late takes the answer of a member to a call whose outcome was unknown.
func (ps *proofs) late(r lock.Return, m *member, err error) {
	if ps.count.Load() == 0 || err != nil && !errors.Is(err, errFreed) {
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
	if ps.count.Load() == 0 {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.known, proofOf{holding{r.Name, r.Owner}, r.Fence})
	ps.count.Store(int64(len(ps.known)))
}
