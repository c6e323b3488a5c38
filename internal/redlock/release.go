package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	return wait(ctx, func(done func(lock.Returned, error)) { s.StartRelease(r, done) })
}

func releaseFailed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("release %q: %w", name, err)
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := decides(r.Kind); err != nil {
		go done(lock.Returned{}, releaseFailed(r.Name, err))
		return
	}
	if r.Next != nil && !r.Kind.Shared() {
		s.startHandOver(r, done)
		return
	}
	r.Next = nil
	x := &release{end: ending{s: s, r: r, start: time.Now(), before: s.proofBefore(r)}, told: done}
	x.decide, x.late = x.verdict, x.answeredLate
	x.open(s)
	earlier := s.late.of(releasedBy(r)) // what is to be released must have been acquired
	earlier.each(s.members, x.ask)
}

// release is one Return at all members.
type release struct {
	ballot[lock.Returned]
	end  ending
	told func(lock.Returned, error)
}

func (x *release) ask(m *member) {
	m.StartRelease(x.s.returnAt(m, x.end.r), func(res lock.Returned, err error) {
		x.answer(m, res, err)
	})
}

// verdict is what the votes amount to, as ballot.decide has it. mu is held.
func (x *release) verdict(last bool) (then func()) {
	err := x.ended(&x.end, x.tally(), last)
	if err == nil {
		return nil
	}
	x.end.conclude(err, x.proof(&x.end))
	votes, absent, res := x.votes, x.absent(), lock.Returned{}
	if errors.Is(err, errFreed) {
		err = nil
		for _, v := range votes {
			res.Listeners = max(res.Listeners, v.v.Listeners)
		}
	}
	return func() {
		x.told(res, releaseFailed(x.end.r.Name, err))
		for i, m := range x.s.members {
			if !absent.has(i) {
				x.end.lookAfter(m, votes[i].err)
			}
		}
	}
}

// ended is errFreed if a majority ended a hold, or why it did not; nil if that is not known yet. mu is held.
func (b *ballot[T]) ended(e *ending, t tally, last bool) error {
	known := b.proof(e)
	switch v := known.verdict(len(b.votes), b.s.quorum); {
	case v == hadIt:
		return errFreed
	case v == lackedIt:
		return b.lacking(known)
	case !last:
		return nil
	case b.refusals(lock.ErrNotHeld) >= b.s.quorum: // it is over, be it by an earlier call
		return lock.ErrNotHeld
	}
	return cmp.Or(b.preventing(lock.ErrStoreFull), noMajority(t))
}

// lacking is the error of a release when no majority can have had the hold. It was over, if a member had it or most
// give no other reason. mu is held.
func (b *ballot[T]) lacking(known proof) error {
	if err := b.commonestRefusal(); known.had == 0 && !errors.Is(err, lock.ErrNotHeld) {
		return err
	}
	return lock.ErrOver
}

// commonestRefusal is what most members gave. mu is held.
func (b *ballot[T]) commonestRefusal() error {
	best, most := lock.ErrNotHeld, 0
	for _, err := range []error{lock.ErrStale, lock.ErrNotHeld, lock.ErrKindMismatch, lock.ErrStoreFull} {
		if n := b.refusals(err); n > most {
			best, most = err, n
		}
	}
	return best
}

// ending is the end of the hold of an owner at all members, by a release or a hand-over.
type ending struct {
	s      *Store
	r      lock.Return
	start  time.Time
	before proof // what earlier calls of the same Return learned

	mu sync.Mutex // guards the fields below
	// freed says that the hold is over: members that may have it are asked again. gone says that it was so already.
	freed, gone bool
	done        set // the members that were looked after
}

// conclude notes the outcome of the call. If the hold is gone a majority lost it, or freed it for an earlier call whose
// outcome was unknown. So nobody has it, and those that did not say so are asked again. A caller without a session may
// have asked for the hold at the same time.
func (e *ending) conclude(err error, known proof) {
	if failed(err) || errors.Is(err, lock.ErrStoreFull) && known.verdict(len(e.s.members), e.s.quorum) == undecided {
		e.s.proofs.put(proofFor(e.r), known, proofTime)
	} else {
		e.s.proofs.forget(proofFor(e.r))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = errors.Is(err, lock.ErrNotHeld) && !e.r.Owner.Repeats()
	e.freed = e.gone || err == nil || errors.Is(err, errFreed)
}

// lookAfter is called when a member has answered and the outcome is known, and does something once for each. It has the
// hold released there if the member did not confirm that it is not there:
//
//   - One that says that it never was may be about to take it, by the acquisition or another try to put it back.
//   - One that says that it has another fence, because its own could not be raised, is asked whatever the fence: the
//     owner has nothing any more. So is one at which the hold was put back lately.
func (e *ending) lookAfter(m *member, err error) {
	e.mu.Lock()
	again := e.done.has(m.number)
	e.done.add(m.number)
	freed, gone, last := e.freed, e.gone, e.done.len() == len(e.s.members)
	e.mu.Unlock()
	if !freed || again {
		return
	}
	r := e.s.returnAt(m, e.r)
	switch {
	case !r.Owner.Repeats() &&
		(errors.Is(err, lock.ErrStale) || e.s.restores.has(holdingAt{m.number, releasedBy(r)})):
		r.Fence = 0
		e.undoLater(m, r, 0)
	case failed(err):
		e.undoLater(m, r, 0)
	case errors.Is(err, lock.ErrNotHeld) && !gone:
		e.undoLater(m, r, 1)
	}
	if last { // until then members may have to be asked with the fences that they know
		e.s.notOdd(e.r)
	}
}

// undoLater has a member asked again for what it may have. It has found nothing so often.
func (e *ending) undoLater(m *member, r lock.Return, found int) {
	pause := firstRetry
	if found > 0 {
		pause = againAfter[found-1]
	}
	e.s.undoLater(&leftover{m: m, r: r, end: e.start.Add(longest), again: unsure, found: found}, pause)
}

func (x *release) answeredLate(m *member, v vote[lock.Returned]) {
	x.s.answeredBefore(x.end.r, m, v.err)
	x.end.lookAfter(m, v.err)
	x.tail.settled(m)
}
