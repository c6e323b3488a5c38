package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Renew implements lock.Store. Each member is asked once for all holds. It compares the fences of all: what an attempt
// that failed has left at a member may be being given back there, and is not the hold that the owner got later.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	r := &renewals{s: s, rs: slices.Clone(rs), polls: make([]poll, len(rs)), wake: make(chan struct{}, 1)}
	r.missing = len(s.members)
	for i := range r.rs {
		if err := begin(ctx, rs[i].Kind); err != nil {
			r.decideLocked(i, err) // nobody knows it yet
		}
		r.rs[i].TTL = s.drifted(rs[i].TTL)
		r.rs[i].Sole = false
	}
	if len(r.ready) < len(rs) {
		s.each(ctx, func(ctx context.Context, m *member) {
			which, theirs := r.open(m)
			m.Renew(ctx, theirs, func(i int, err error) { r.vote(m, which[i], err) })
			r.returned()
		})
	}
	r.wait(ctx, done)
}

// renewals are the votes on many holds.
type renewals struct {
	s    *Store
	rs   []lock.Renewal // as members are asked; members use it when Renew has returned
	wake chan struct{}  // size 1: something is ready, or a member has returned

	mu      sync.Mutex // guards the fields below
	polls   []poll
	missing int        // members that have not returned
	ready   []decision // to be told
	decided int
}

// poll has the votes on one hold.
type poll struct {
	yes, forced, data, unknown uint8
	gone                       set // the members that said so
	over, kept                 bool
}

// decision is what is told of a hold.
type decision struct {
	i   int
	err error
}

// open are the holds that a member is asked for, with their indices.
func (r *renewals) open(m *member) (which []int, rs []lock.Renewal) {
	for i := range r.rs {
		if k := r.rs[i].Kind; k == lock.Exclusive || k == lock.Read || k == lock.Write {
			which, rs = append(which, i), append(rs, r.s.renewalAt(m, r.rs[i]))
		}
	}
	return which, rs
}

// vote takes what a member says of a hold. It is put back there if a majority has it, whenever the member says so.
func (r *renewals) vote(m *member, i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.polls[i]
	gone, isGone := errors.AsType[*lock.GoneError](err)
	switch {
	case err == nil && r.s.inDoubt(m, r.rs[i]):
		p.unknown++
	case err == nil:
		p.yes++
	case isGone:
		p.gone.add(m.number)
		if gone.Reason == lock.LostData {
			p.data++
		} else {
			p.forced++
		}
		if p.kept {
			r.s.restore(m, r.rs[i])
		}
	case !errors.Is(err, lock.ErrUnavailable):
		p.unknown++
	}
	if p.over {
		return
	}
	lost := goneOf(int(p.forced), int(p.data), len(r.s.members)-r.s.quorum)
	if int(p.yes) >= r.s.quorum {
		p.kept = true
		r.decideLocked(i, nil)
		r.restoreLocked(i)
	} else if lost != nil {
		r.decideLocked(i, renewFailed(r.rs[i].Name, lost))
	}
}

func (r *renewals) restoreLocked(i int) {
	for _, m := range r.s.members {
		if r.polls[i].gone.has(m.number) {
			r.s.restore(m, r.rs[i])
		}
	}
}

func (r *renewals) decideLocked(i int, err error) {
	r.polls[i].over = true
	r.decided++
	r.ready = append(r.ready, decision{i, err})
	r.rouse()
}

func (r *renewals) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// returned notes that a member has said all it has to say.
func (r *renewals) returned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing--; r.missing == 0 {
		r.closeLocked()
	}
	r.rouse()
}

// closeLocked decides what is undecided without those that are missing.
func (r *renewals) closeLocked() {
	for i := range r.polls {
		p := &r.polls[i]
		if p.over {
			continue
		}
		err := noMajority(tally{yes: int(p.yes), unknown: int(p.unknown), missing: r.missing})
		r.decideLocked(i, renewFailed(r.rs[i].Name, err))
	}
}

// wait tells all outcomes. When a majority of the members has returned, the others have NodeTimeout left.
func (r *renewals) wait(ctx context.Context, done func(int, error)) {
	var patience <-chan time.Time
	for told := 0; told < len(r.rs); {
		r.mu.Lock()
		ready, missing := r.ready, r.missing
		r.ready = nil
		r.mu.Unlock()
		for _, d := range ready {
			done(d.i, d.err)
		}
		if told += len(ready); told == len(r.rs) {
			return
		}
		if patience == nil && len(r.s.members)-missing >= r.s.quorum {
			patience = time.After(r.s.cfg.NodeTimeout)
		}
		select {
		case <-r.wake:
		case <-patience:
			r.giveUp()
		case <-ctx.Done():
			r.giveUp()
		}
	}
}

func (r *renewals) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLocked()
}
