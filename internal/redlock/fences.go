package redlock

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// fences proposes fences: the time in µs, and always more than any it has seen. Replicas whose clocks differ follow the
// one that is ahead: a fence that is less than a member has seen costs a second round, and may be in the way for a
// while when it was in vain.
type fences struct {
	last  atomic.Uint64
	ahead atomic.Int64 // how far the fences of others are ahead of our clock, in µs
}

// mostAhead bounds how far a clock is followed. What is more is no clock.
const mostAhead = int64(24 * time.Hour / time.Microsecond)

func (f *fences) propose(now time.Time) lock.Fence {
	for {
		last := f.last.Load()
		next := max(uint64(now.UnixMicro()+f.ahead.Load()), last+1) //nolint:gosec // it is after 1970
		if f.last.CompareAndSwap(last, next) {
			return lock.Fence(next)
		}
	}
}

// saw notes a fence that was given out.
func (f *fences) saw(fence lock.Fence) {
	for last := f.last.Load(); last < uint64(fence); last = f.last.Load() {
		if f.last.CompareAndSwap(last, uint64(fence)) {
			f.follow(int64(fence) - time.Now().UnixMicro()) //nolint:gosec // fences are below 2^53
			return
		}
	}
}

func (f *fences) follow(ahead int64) {
	for was := f.ahead.Load(); was < ahead && ahead <= mostAhead; was = f.ahead.Load() {
		if f.ahead.CompareAndSwap(was, ahead) {
			return
		}
	}
}

// agreed are the fences that a majority of the voters has, nil if there is none for one of the names. mu is held.
//
// That is enough for their order. An earlier grant was told with a fence that a majority had. One member is in both: it
// gave this fence after that one.
//
// It must be a fence of this attempt alone, or that of a hold that the owner has already. Of an earlier attempt that
// failed releases may be under way, with the fence that it had at a member. That is the one that was proposed, and
// known to this attempt for another; or a greater one that a member gave, and then this attempt has its fence raised.
func (a *attempt) agreed(voters set) []lock.Fence {
	fences := make([]lock.Fence, len(a.sent))
	for n := range fences {
		f, times := commonest(a.ownFences(n, voters))
		if times < a.s.quorum {
			return nil
		}
		fences[n] = f
	}
	return fences
}

// mayBeTold says whether the members that have not answered may show that a majority has an older fence: that which the
// owner was told, if it has asked before. Members that were away then are back, and answered sooner. mu is held.
func (a *attempt) mayBeTold(voters set) bool {
	c := a.sent[0]
	if !c.Owner.Repeats() {
		return false
	}
	older := slices.DeleteFunc(a.ownFences(0, voters), func(f lock.Fence) bool { return f >= c.Fence })
	_, n := commonest(older)
	return n > 0 && n+a.missing >= a.s.quorum
}

// repeated is called when an owner that repeats itself is told fences that a majority has. Where it has a greater one,
// calls bring that; and a release that comes now is another one than before. mu is held.
func (a *attempt) repeated(voters set) {
	c := a.sent[0]
	if !c.Owner.Repeats() {
		return
	}
	a.s.proofs.forget(proofOf{holdingOf(c), 0}, proofOf{holdingOf(c), a.granted[0]})
	c.Fence = a.granted[0]
	for i, v := range a.votes {
		if voters.has(i) && v.v[0].Fence > c.Fence {
			a.s.isOdd(a.s.members[i], c, v.v[0].Fence)
		}
	}
}

// ownFences are the fences that some members gave for a name and that are of this attempt alone, or of a hold that the
// owner has already. mu is held.
func (a *attempt) ownFences(n int, voters set) (own []lock.Fence) {
	own = make([]lock.Fence, 0, len(a.votes))
	proposal, abandoned := a.sent[n].Fence, a.s.isAbandoned(holdingOf(a.sent[n]))
	for i, v := range a.votes {
		if !voters.has(i) {
			continue
		}
		f := v.v[n].Fence
		if f == proposal || f < proposal && !abandoned || a.asked[n].Fence != 0 { // the caller's
			own = append(own, f)
		}
	}
	return own
}

// raise has all members that granted it have the same fence, which is told when a majority has it. It is more than any
// of them gave, and than any that was proposed: releases of an earlier attempt may be under way, with those fences. mu
// is held.
func (a *attempt) raise() (then func()) {
	var at []*member
	for i, v := range a.votes {
		if v.cast && v.err == nil { // its fences were seen
			at = append(at, a.s.members[i])
			a.busy.add(i)
		}
	}
	granted := make([]lock.Fence, len(a.sent))
	claims := slices.Clone(a.sent)
	for n := range claims {
		granted[n] = a.s.fences.propose(time.Now())
		claims[n].Fence = granted[n]
	}
	a.granted = granted
	a.s.metrics.raised.Inc()
	return func() { a.raiseAt(at, claims) }
}

// raiseAt asks the members, and tells the outcome of the attempt.
func (a *attempt) raiseAt(at []*member, claims []lock.Claim) {
	b := open(a.s, a.raised, a.told)
	for _, m := range a.s.members {
		if !slices.Contains(at, m) {
			b.answer(m, struct{}{}, lock.ErrUnavailable)
			continue
		}
		a.s.run(context.Background(), func(ctx context.Context) {
			var err error
			for _, c := range claims {
				if err == nil {
					_, err = m.Raise(ctx, c)
				}
			}
			a.tail.settled(m)
			b.answer(m, struct{}{}, err)
		})
	}
}

// raised is the verdict on the raised fences.
func (a *attempt) raised(b *ballot[struct{}], last bool) (gs []lock.Grant, over bool, err error) {
	var voters set
	for i, v := range b.votes {
		if v.cast && v.err == nil && !a.s.quarantined(a.s.members[i]) {
			voters.add(i)
		}
	}
	switch yes := voters.len(); {
	case yes >= a.s.quorum && a.expired():
		return nil, true, errTooLate
	case yes >= a.s.quorum && a.forced():
		return nil, true, errForced
	case yes >= a.s.quorum:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.repeated(0)
		return a.grants(voters), true, nil
	case last || yes+b.tally().missing < a.s.quorum:
		// Some may be raised yet, so no later attempt is told the fences that there are now.
		a.s.abandon(2*a.s.cfg.CallTimeout+underWay, a.sent...)
		return nil, true, errUnclear
	}
	return nil, false, nil
}

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	if c.Fence == 0 {
		return s.pin(ctx, c)
	}
	return s.raise(ctx, c)
}

// raise has a majority have at least a fence, and returns the greatest that a majority has reached.
func (s *Store) raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	s.fences.saw(c.Fence)
	return question[lock.Fence, lock.Fence]{
		what: "raise the fence of", name: c.Name, kind: c.Kind,
		ask: func(ctx context.Context, m *member) (lock.Fence, error) {
			f, err := m.Raise(ctx, c)
			return f, s.sworn(m, err)
		},
		verdict: func(b *ballot[lock.Fence], last bool) (lock.Fence, bool, error) {
			_, over, err := oneWord(b, last)
			if !over || err != nil {
				return 0, over, err
			}
			f, _ := s.fenceOf(b.said(), 0)
			return max(f, c.Fence), true, nil
		},
	}.put(ctx, s)
}
