package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	return wait(ctx, func(done func(lock.Returned, error)) { s.StartRelease(r, done) })
}

func releaseFailed(name string, err error) error { return fmt.Errorf("release %q: %w", name, err) }

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := decides(r.Kind); err != nil {
		go done(lock.Returned{}, releaseFailed(r.Name, err))
		return
	}
	if r.Next != nil && r.Remaining == 0 && !r.Kind.Shared() {
		s.startHandOver(r, done)
		return
	}
	r.Next = nil
	x := &release{r: r, start: time.Now(), told: done, before: s.proofBefore(r)}
	x.decide, x.late = x.afterVote, x.answeredLate
	x.open(s)
	earlier := s.late.of(releasedBy(r)) // what is to be released must have been acquired
	if r.Remaining > 0 {
		x.inTurn(earlier, x.ask)
	} else {
		earlier.each(s.members, x.ask)
	}
}

// release is one Return at all members.
type release struct {
	ballot[lock.Returned]
	r      lock.Return
	start  time.Time
	told   func(lock.Returned, error)
	before proof // what earlier calls of the same Return learned
	// freed says that the hold is over: members that may have it are asked again. gone says that it was so already.
	freed, gone bool
	tail        tail // see late.go
}

func (x *release) ask(m *member) {
	m.StartRelease(x.s.returnAt(m, x.r), func(res lock.Returned, err error) {
		x.s.released(m, x.r, err)
		x.answer(m, res, err)
	})
}

// afterVote is called with mu after each vote.
func (x *release) afterVote(last bool) (then func()) {
	then = x.verdict(last)
	if then == nil || x.missing == 0 || x.r.Remaining == 0 {
		return then
	}
	if at := x.leaveOut(false); at != 0 {
		x.tail.grow(x.s, at, releasedBy(x.r))
	}
	return then
}

func (x *release) verdict(last bool) (then func()) {
	t, q := x.tally(), x.s.quorum
	if x.r.Remaining > 0 {
		return x.countedDown(t, last)
	}
	known := x.proof(x.r, x.before)
	switch v := known.verdict(len(x.s.members), q); {
	case v == hadIt:
		return x.succeed()
	case v == lackedIt && errors.Is(x.lacking(known), lock.ErrNotHeld):
		return x.notHeld(lock.ErrOver)
	case v == lackedIt:
		return x.fail(x.lacking(known))
	case !last:
		return nil
	case x.refusals(lock.ErrNotHeld) >= q: // it is over, be it by an earlier call
		return x.notHeld(lock.ErrNotHeld)
	}
	err := cmp.Or(x.preventing(lock.ErrStoreFull), noMajority(t))
	x.s.proofs.put(proofFor(x.r), known, proofTime)
	return func() { x.told(lock.Returned{}, releaseFailed(x.r.Name, err)) }
}

// countedDown is verdict for a hold that goes on.
func (x *release) countedDown(t tally, last bool) (then func()) {
	switch q := x.s.quorum; {
	case t.yes >= q:
		return x.succeed()
	case x.refusals(lock.ErrNotHeld) >= q:
		return x.notHeld(lock.ErrNotHeld)
	case x.refusals(lock.ErrStale) >= q:
		return x.fail(lock.ErrStale)
	case x.refusals(lock.ErrKindMismatch) >= q:
		return x.fail(lock.ErrKindMismatch)
	case !last:
		return nil
	case t.definite() >= q && t.yes == 0:
		return x.fail(x.commonest())
	}
	return x.fail(noMajority(t))
}

// lacking is the error of a release when no majority can have had the hold. It was over, if a member had it or most
// give no other reason. mu is held.
func (b *ballot[T]) lacking(known proof) error {
	if err := b.commonest(); known.had == 0 && !errors.Is(err, lock.ErrNotHeld) {
		return err
	}
	return lock.ErrOver
}

// commonest is the refusal that most members gave. mu is held.
func (b *ballot[T]) commonest() error {
	best, most := lock.ErrNotHeld, 0
	for _, err := range []error{lock.ErrStale, lock.ErrNotHeld, lock.ErrKindMismatch, lock.ErrStoreFull} {
		if n := b.refusals(err); n > most {
			best, most = err, n
		}
	}
	return best
}

// succeed is called with mu. A majority has not got the hold any more, so nobody has it.
func (x *release) succeed() (then func()) {
	x.freed = x.r.Remaining == 0
	var res lock.Returned
	for _, v := range x.votes {
		if v.cast && v.err == nil {
			res.Listeners = max(res.Listeners, v.v.Listeners)
		}
	}
	return x.after(res, nil)
}

// notHeld is called with mu. A majority has not got the hold: it lost it, or freed it for an earlier call whose outcome
// was unknown. So nobody has it, and those that did not say so are asked again. A caller without a session may have
// asked for the hold at the same time.
func (x *release) notHeld(err error) (then func()) {
	x.freed = x.r.Remaining == 0 && !x.r.Owner.Repeats()
	x.gone = x.freed
	return x.after(lock.Returned{}, releaseFailed(x.r.Name, err))
}

// after tells the outcome and then looks after the members that have answered. mu is held.
func (x *release) after(res lock.Returned, err error) (then func()) {
	votes, absent, freed := x.votes, x.absent(), x.freed
	return func() {
		x.s.proofs.forget(proofFor(x.r))
		x.told(res, err)
		for i, m := range x.s.members {
			if !absent.has(i) {
				x.tooLate(m, votes[i])
			}
		}
		if freed && absent == 0 {
			x.s.notOdd(x.r)
		}
	}
}

// fail is called with mu. What an unclear release has left is for the caller, who repeats it.
func (x *release) fail(err error) (then func()) {
	return func() { x.told(lock.Returned{}, releaseFailed(x.r.Name, err)) }
}

func (x *release) answeredLate(m *member, v vote[lock.Returned]) {
	x.s.answeredBefore(x.r, m, v.err)
	x.tooLate(m, v)
	x.mu.Lock()
	over := x.freed && x.missing == 0 // until then members may have to be asked with the fences that they know
	x.mu.Unlock()
	if over {
		x.s.notOdd(x.r)
	}
	x.tail.settled(m)
}

// tooLate has the hold released at a member that did not confirm that it is not there. One that says that it never was
// may be about to take it: the acquisition is under way, or another try to put the hold back. One that says that it has
// another fence, because its own could not be raised, is asked whatever the fence: the owner has nothing any more. One
// at which the hold was put back lately is asked in the same way.
func (x *release) tooLate(m *member, v vote[lock.Returned]) {
	x.mu.Lock()
	freed, gone := x.freed, x.gone
	x.mu.Unlock()
	switch {
	case freed && !x.r.Owner.Repeats() && x.s.restores.has(holdingAt{m.number, releasedBy(x.r)}):
		l := x.leftAt(m)
		l.r.Fence = 0
		x.s.undoLater(l, firstRetry)
	case !freed || v.err == nil || gone && errors.Is(v.err, lock.ErrNotHeld):
	case failed(v.err):
		x.s.undoLater(x.leftAt(m), firstRetry)
	case errors.Is(v.err, lock.ErrNotHeld):
		l := x.leftAt(m)
		l.found = 1
		x.s.undoLater(l, againAfter[0])
	case errors.Is(v.err, lock.ErrStale) && !x.r.Owner.Repeats():
		l := x.leftAt(m)
		l.r.Fence = 0
		x.s.undoLater(l, firstRetry)
	}
}

// leftAt is what may be left of the hold at a member.
func (x *release) leftAt(m *member) *leftover {
	return &leftover{m: m, r: x.s.returnAt(m, x.r), end: x.start.Add(longest), again: unsure}
}
