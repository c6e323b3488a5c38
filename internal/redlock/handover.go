package redlock

import (
	"errors"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// handOver is a Return with a successor at all members. Each ends the hold of the owner and begins that of the
// successor in one step.
//
// For the successor it is an attempt as any other (acquire.go), with a fence of its own: it has the name when a
// majority gave it that fence. Else what a minority gave is undone. For the owner it is a release: what members may
// have left of its hold is ended, and never handed over any more.
type handOver struct {
	*attempt
	end      ending // of the owner's hold
	returned func(lock.Returned, error)
	// Guarded by mu:
	heard int  // how many listeners heard of the end of the owner's hold
	known bool // the outcome
}

// errFreed is what a member that ended the hold, and handed nothing over, says to the successor.
var errFreed = errors.New("it was freed and not handed over")

func (s *Store) startHandOver(r lock.Return, returned func(lock.Returned, error)) {
	successor := [...]lock.Claim{{
		Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Fence: r.Next.Fence,
		TTL: r.Next.TTL,
	}}
	r.Next = nil
	h := &handOver{returned: returned}
	h.attempt = s.attempt(successor[:], h.outcome)
	h.end = ending{s: s, r: r, start: h.start, before: s.proofBefore(r)}
	h.decide, h.late, h.why, h.eager = h.afterVote, h.answeredLate, h.refusal, true
	h.inTurn(s.late.of(releasedBy(r)), h.ask) // what is to be handed over must have been acquired
}

func (h *handOver) ask(m *member) {
	successor := h.sent[0]
	r := h.s.returnAt(m, h.end.r)
	r.Next = &lock.Successor{Owner: successor.Owner, TTL: successor.TTL, Fence: successor.Fence}
	m.StartRelease(r, func(res lock.Returned, err error) {
		if err == nil && res.HandedOver == 0 {
			err = errFreed
			h.mu.Lock()
			h.heard = max(h.heard, res.Listeners)
			h.mu.Unlock()
		}
		if err != nil {
			h.cast(m, nil, err)
			return
		}
		h.cast(m, []lock.Grant{{Fence: res.HandedOver, TTL: successor.TTL}}, nil)
	})
}

// afterVote is called with mu after each vote. What is asked next for the successor waits for the members at which it
// may be.
func (h *handOver) afterVote(last bool) (then func()) {
	if last || h.proof(&h.end).verdict(len(h.votes), h.s.quorum) != undecided {
		then = h.verdict(last)
	}
	if then == nil {
		return nil
	}
	for i, v := range h.votes {
		if h.granted != nil && errors.Is(v.err, lock.ErrNotHeld) {
			h.busy.add(i)
		}
	}
	return then
}

// refusal is why the successor has not got the name, when it is known that no majority handed it over: errFreed if the
// owner's hold has ended. mu is held.
func (h *handOver) refusal(st standing) error {
	st.yes += st.silent
	return h.ended(&h.end, st.tally, true)
}

// outcome is called when it is decided, and tells it.
func (h *handOver) outcome(gs []lock.Grant, err error) {
	h.mu.Lock()
	h.end.conclude(err, h.proof(&h.end))
	votes, busy, heard := slices.Clone(h.votes), h.busy, h.heard
	h.known = true
	h.mu.Unlock()
	switch {
	case err == nil:
		h.returned(lock.Returned{HandedOver: gs[0].Fence}, nil)
	case errors.Is(err, errFreed):
		h.returned(lock.Returned{Listeners: heard}, nil)
	default:
		h.returned(lock.Returned{}, releaseFailed(h.end.r.Name, err))
	}
	for i, m := range h.s.members {
		if votes[i].cast {
			h.end.lookAfter(m, votes[i].err)
		}
		if busy.has(i) && errors.Is(votes[i].err, lock.ErrNotHeld) {
			h.heal(m, err == nil)
		}
	}
}

// heal has the successor hold the name at a member that had no hold to hand over, once a majority has given it the
// name. Else all hand-overs that follow would have a majority and no more. It is as safe as to put a hold back
// (restore). hold is false if none was told.
func (h *handOver) heal(m *member, hold bool) {
	if !hold || h.s.closed.Load() {
		h.tail.settled(m)
		return
	}
	h.mu.Lock()
	c := h.sent[0]
	c.Fence = h.granted[0]
	h.mu.Unlock()
	h.s.underWay.Add(1)
	m.StartAcquire(c, func(g lock.Grant, err error) {
		defer h.s.underWay.Add(-1)
		h.tooLate(m, vote[[]lock.Grant]{cast: true, v: []lock.Grant{g}, err: err})
	})
}

// answeredLate looks after what a member did when it was decided.
func (h *handOver) answeredLate(m *member, v vote[[]lock.Grant]) {
	h.s.answeredBefore(h.end.r, m, v.err)
	h.mu.Lock()
	empty, known := h.granted != nil && errors.Is(v.err, lock.ErrNotHeld), h.known
	h.mu.Unlock()
	if empty {
		h.heal(m, true)
	} else {
		h.tooLate(m, v)
	}
	if known { // else it is done with the outcome
		h.end.lookAfter(m, v.err)
	}
}
