package redlock

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// late knows the calls that were decided before all members had answered, by whose hold they are about. Members do not
// keep the order of what they are asked. One that carried out a release before the acquisition that it ends would have
// a hold that nobody knows of. If two of five members had one, and a third one were down, nobody could have the name.
// So a member is asked for the next thing about a hold when it has answered what comes before.
type late struct {
	seed  maphash.Seed
	parts [lateParts]latePart
}

// lateParts is into how many parts it is divided, so that callers seldom meet.
const lateParts = 64

type latePart struct {
	mu    sync.Mutex // guards the field below
	calls map[holding]calls
}

// calls are those about one hold, in the order in which they were decided. Nearly always it is one. Nobody changes the
// elements.
type calls []*tail

func newLate() *late {
	l := &late{seed: maphash.MakeSeed()}
	for i := range l.parts {
		l.parts[i].calls = make(map[holding]calls)
	}
	return l
}

// of are the calls about a hold.
func (l *late) of(h holding) calls { return l.change(h, func(cs calls) calls { return cs }) }

func (l *late) change(h holding, to func(calls) calls) calls {
	p := &l.parts[maphash.Comparable(l.seed, h)%lateParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	cs := to(p.calls[h])
	if len(cs) > 0 {
		p.calls[h] = cs
	} else {
		delete(p.calls, h)
	}
	return cs
}

// at are the members that have not answered all of these calls.
func (cs calls) at() (at set) {
	for _, t := range cs {
		at |= t.absent()
	}
	return at
}

// each has something be done at each member when that has answered all of these calls.
func (cs calls) each(ms []*member, next func(*member)) {
	for _, m := range ms {
		cs.then(m, next)
	}
}

func (cs calls) then(m *member, next func(*member)) {
	for i, t := range cs {
		if t.await(m, func() { cs[i+1:].then(m, next) }) {
			return
		}
	}
	next(m)
}

// tail is what is left of a call when it was decided.
type tail struct {
	s     *Store
	of    []holding
	alone [1]*tail // itself

	mu   sync.Mutex // guards the fields below
	at   set        // the members that have not answered
	then []afterwards
}

func (t *tail) absent() set {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// afterwards is what is done when a member has answered.
type afterwards struct {
	m    *member
	next func()
}

// grow is called when the call is decided, with the members that have yet to answer.
func (t *tail) grow(s *Store, at set, of []holding) {
	t.s, t.of, t.alone[0] = s, of, t
	t.mu.Lock()
	t.at = at
	t.mu.Unlock()
	for _, h := range of {
		s.late.change(h, func(cs calls) calls {
			if len(cs) == 0 {
				return t.alone[:]
			}
			return append(slices.Clip(cs), t)
		})
	}
}

func (t *tail) await(m *member, next func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.at.has(m.number) {
		return false
	}
	t.then = append(t.then, afterwards{m, next})
	return true
}

// settled is called when a member has answered and nothing more is to be done about it. It does what has waited for
// that.
func (t *tail) settled(m *member) {
	t.mu.Lock()
	t.at.remove(m.number)
	over := t.at == 0
	var now []func()
	t.then = slices.DeleteFunc(t.then, func(a afterwards) bool {
		if a.m == m {
			now = append(now, a.next)
		}
		return a.m == m
	})
	t.mu.Unlock()
	if over {
		for _, h := range t.of {
			t.s.late.change(h, t.outOf)
		}
	}
	for _, next := range now {
		next()
	}
}

// outOf are those of some calls that this is not left of.
func (t *tail) outOf(cs calls) (left calls) {
	for _, other := range cs {
		if other != t {
			left = append(left, other)
		}
	}
	return left
}

// absent are the members that have not voted. mu is held.
func (b *ballot[T]) absent() (at set) {
	for i, v := range b.votes {
		if !v.cast {
			at.add(i)
		}
	}
	return at
}

// inTurn has each member asked when it has answered what comes before. A silent one that was decided without is left
// out: it would have all later calls about the hold wait for each other. Those that have nothing to answer are asked in
// any case, also if others are so quick that it is decided before.
func (b *ballot[T]) inTurn(before calls, ask func(*member)) {
	b.sentTo &^= before.at()
	if len(before) == 0 {
		before.each(b.s.members, ask)
		return
	}
	before.each(b.s.members, func(m *member) {
		if b.passed(m) {
			b.answer(m, *new(T), errPassed)
		} else {
			ask(m)
		}
	})
}

// passed says whether a member is left out. If not, it is asked now.
func (b *ballot[T]) passed(m *member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leftOut.has(m.number) || b.over && !b.sentTo.has(m.number) && m.silent.Load() {
		return true
	}
	b.sentTo.add(m.number)
	return false
}

// leaveOut is called when it is decided. Of the members whose turn has not come it leaves out those that are silent, or
// all, and returns those that have yet to answer. mu is held.
func (b *ballot[T]) leaveOut() (at set) {
	at = b.absent()
	for i, m := range b.s.members {
		if at.has(i) && !b.sentTo.has(i) && (b.eager || m.silent.Load()) {
			b.leftOut.add(i)
		}
	}
	return at &^ b.leftOut
}

// errPassed: when the member's turn came, the outcome was known.
var errPassed = fmt.Errorf("%w: a majority decided without it", lock.ErrUnavailable)
