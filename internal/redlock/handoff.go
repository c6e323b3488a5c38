package redlock

import (
	"errors"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// handoff is a Return with a successor at all members. Each member ends the owner's hold and begins the successor's in
// one step.
//
// For the successor it is an attempt (acquire.go), with a fence of its own: it has the name if a majority gave it that
// fence, else what a minority gave is undone. For the owner it is a release: what is left of its hold at any member
// ends, and is not handed over later.
type handoff struct {
	*attempt
	r        lock.Return // of the owner's hold
	returned func(lock.Returned, error)
	// Guarded by mu:
	heard   int  // how many listeners heard of the end of the owner's hold
	known   bool // the outcome is known
	unclear bool // it is not known whether a majority handed the name over
}

func (s *Store) startHandoff(r lock.Return, returned func(lock.Returned, error)) {
	successor := [...]lock.Claim{{
		Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Fence: r.Next.Fence,
		TTL: r.Next.TTL, Tenant: r.Tenant,
	}}
	h := &handoff{r: r, returned: returned}
	h.attempt = s.attempt(successor[:], h.outcome)
	h.decide = func(last bool) (then func()) {
		if _, err := h.endedLocked(false); last || err != nil {
			return h.verdictLocked(last)
		}
		return nil
	}
	h.late, h.why, h.tries = h.answeredLate, h.refusalLocked, releaseTries
	next := h.sent[0]
	r.Next = &lock.Successor{Owner: next.Owner, TTL: next.TTL, Fence: next.Fence}
	for _, m := range s.members {
		m.StartRelease(r, func(res lock.Returned, err error) { h.answered(m, res, err) })
	}
	h.asked()
}

func (h *handoff) answered(m *member, res lock.Returned, err error) {
	if err = assumed(res, err); err == nil && res.HandedOver == 0 {
		err = errFreed
		h.mu.Lock()
		h.heard = max(h.heard, res.Listeners)
		h.mu.Unlock()
	}
	if err != nil {
		h.cast(m, nil, err)
		return
	}
	h.cast(m, []lock.Grant{{Fence: res.HandedOver, TTL: h.sent[0].TTL}}, nil)
}

// refusalLocked is why the successor is not told that it has the name: errFreed if the owner's hold has ended. unclear
// says that a majority may have handed it over.
func (h *handoff) refusalLocked(unclear bool) error {
	h.unclear = unclear
	_, err := h.endedLocked(true)
	return err
}

// outcome is called when the handoff is decided, and tells the outcome.
func (h *handoff) outcome(gs []lock.Grant, err error) {
	h.mu.Lock()
	h.known = true
	res, _ := h.endedLocked(true)
	res.Listeners = h.heard
	// What a successor that repeats may have stays, so the caller has to know of it.
	res.Assumed = res.Assumed || h.unclear && h.repeats()
	votes := slices.Clone(h.votes)
	h.mu.Unlock()
	switch {
	case err == nil:
		h.returned(lock.Returned{HandedOver: gs[0].Fence}, nil)
	case errors.Is(err, errFreed):
		h.returned(res, nil)
	default:
		h.returned(lock.Returned{}, about("release", h.r.Name, err))
	}
	for _, v := range votes {
		h.heal(v)
	}
}

// heal gives the successor the name at a member that had no hold to hand over, once a majority has given it the name.
// Else all later handoffs would have only the same bare majority.
func (h *handoff) heal(v vote[[]lock.Grant]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.sent[0]; h.known && !h.lost && h.granted != nil && errors.Is(v.err, lock.ErrNotHeld) {
		h.s.restore(v.from, lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: h.granted[0]})
	}
}

// answeredLate handles a vote that comes after the decision.
func (h *handoff) answeredLate(v vote[[]lock.Grant]) {
	h.attempt.answeredLate(v)
	h.heal(v)
}
