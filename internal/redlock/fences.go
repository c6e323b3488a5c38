package redlock

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// fences proposes fences: the time in µs, and always more than any fence it has seen. Replicas whose clocks differ
// follow the one that is ahead, because a fence that is less than a member's last one costs a second round, and an
// attempt with it that fails may be in the way for a while.
type fences struct {
	last  atomic.Uint64
	ahead atomic.Int64 // how far the fences of others are ahead of our clock, in µs
}

// mostAhead bounds how far ahead a clock is followed. A fence that is farther ahead does not come from a clock.
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

// agreedLocked are the fences that a majority of the voters has, nil if there is none for one of the names.
//
// That is enough for the order of fences. An earlier grant was told with a fence that a majority had. One member is in
// both majorities: it gave this fence after that one.
//
// The fence must be that of this attempt, or of a hold that the owner has already. Releases of an earlier attempt that
// failed may be under way, with the fences that members gave then. All of these are less than what is proposed later.
func (a *attempt) agreedLocked(voters set) []lock.Fence {
	fences := make([]lock.Fence, len(a.sent))
	for n := range fences {
		f, times := commonest(a.ownFencesLocked(n, voters))
		if times < a.s.quorum {
			return nil
		}
		fences[n] = f
	}
	return fences
}

// mayBeToldLocked says whether a majority may have an older fence, once the missing members answer. If the owner
// repeats, that may be the fence that it was told; members that were away then may have answered sooner now.
func (a *attempt) mayBeToldLocked(voters set) bool {
	c := a.sent[0]
	if !c.Owner.Repeats() {
		return false
	}
	older := slices.DeleteFunc(a.ownFencesLocked(0, voters), func(f lock.Fence) bool { return f >= c.Fence })
	_, n := commonest(older)
	return n > 0 && n+a.missing >= a.s.quorum
}

// ownFencesLocked are the fences that voters gave for the n-th name, as far as they are of this attempt, or of a hold
// that the owner has already.
func (a *attempt) ownFencesLocked(n int, voters set) (own []lock.Fence) {
	own = make([]lock.Fence, 0, len(a.votes))
	proposal, older := a.sent[n].Fence, a.repeats() || a.s.vain.none()
	for i, v := range a.votes {
		if !voters.has(i) {
			continue
		}
		f := v.v[n].Fence
		if f == proposal || f < proposal && older || a.claims[n].Fence != 0 { // the caller proposed it
			own = append(own, f)
		}
	}
	return own
}

// underWay is for how long a command may be on its way after its caller has stopped waiting.
const underWay = 3 * defaultCallTimeout

// vain is until when so many members may have the hold of a failed attempt that it could be taken for one that was
// told. (An owner that does not repeat asks again only if it was not granted the name.)
type vain struct{ until atomic.Int64 } // in ns since 1970

func (v *vain) saw(last time.Duration) {
	end := time.Now().Add(last).UnixNano()
	for was := v.until.Load(); was < end && !v.until.CompareAndSwap(was, end); was = v.until.Load() {
	}
}

func (v *vain) none() bool { return time.Now().UnixNano() > v.until.Load() }

// raiseLocked asks all members that granted the claims to raise their fences to the same new one, which is told when a
// majority has it. It is more than any fence that was given or proposed before, because releases with those may be
// under way.
func (a *attempt) raiseLocked() (then func()) {
	for i, v := range a.votes {
		if v.yes() { // its fences are known
			a.raised.add(i)
		}
	}
	a.granted = make([]lock.Fence, len(a.sent))
	claims := slices.Clone(a.sent)
	for n := range claims {
		claims[n].Fence = a.s.fences.propose(time.Now())
		a.granted[n] = claims[n].Fence
	}
	a.s.metrics.raised.Inc()
	at := a.raised
	return func() { a.raiseAll(at, claims) }
}

func (a *attempt) raiseAll(at set, claims []lock.Claim) {
	b := open(a.s, a.raisedBy, func(gs []lock.Grant, err error) {
		then := func() { a.told(gs, nil) }
		if err != nil {
			a.mu.Lock()
			then = a.failLocked(a.standingLocked(), err)
			a.mu.Unlock()
		}
		then()
	})
	for _, m := range a.s.members {
		if !at.has(m.number) {
			b.answer(m, struct{}{}, lock.ErrUnavailable)
			continue
		}
		a.s.run(context.Background(), func(ctx context.Context) {
			err := raiseAt(ctx, m, claims)
			if err != nil && !isUnknown(err) {
				a.mu.Lock()
				a.raised.remove(m.number)
				a.mu.Unlock()
			}
			b.answer(m, struct{}{}, err)
		})
	}
}

func raiseAt(ctx context.Context, m *member, cs []lock.Claim) (err error) {
	for _, c := range cs {
		if err == nil {
			_, err = m.Raise(ctx, c)
		}
	}
	return err
}

func (a *attempt) raisedBy(b *ballot[struct{}], last bool) (gs []lock.Grant, over bool, err error) {
	voters := b.votersLocked()
	switch yes := voters.len(); {
	case yes >= a.s.quorum:
		if err = a.over(); err != nil {
			return nil, true, err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.grantsLocked(voters), true, nil
	case last || yes+b.tallyLocked().missing < a.s.quorum:
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

// raise raises the fence to c.Fence at a majority, and returns the greatest fence that a majority has reached.
func (s *Store) raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	s.fences.saw(c.Fence)
	return question[lock.Fence]{
		what: "raise the fence of", name: c.Name, kind: c.Kind,
		ask: func(ctx context.Context, m *member) (lock.Fence, error) {
			f, err := m.Raise(ctx, c)
			return f, s.unlessForgotten(m, err)
		},
		verdict: func(b *ballot[lock.Fence], last bool) (lock.Fence, bool, error) {
			_, over, err := oneWord(b, last)
			if !over || err != nil {
				return 0, over, err
			}
			var fences []lock.Fence
			for _, v := range b.saidLocked() {
				fences = append(fences, v.v)
			}
			f, _ := s.fenceOf(fences, 0)
			return max(f, c.Fence), true, nil
		},
	}.put(ctx, s)
}
