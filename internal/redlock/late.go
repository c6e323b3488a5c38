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

// calls are those about one hold. Nearly always it is one.
type calls struct {
	last    *tail
	earlier []*tail // never changed
}

func newLate() *late {
	l := &late{seed: maphash.MakeSeed()}
	for i := range l.parts {
		l.parts[i].calls = make(map[holding]calls)
	}
	return l
}

func (l *late) part(h holding) *latePart {
	return &l.parts[maphash.Comparable(l.seed, h)%lateParts]
}

// of are the calls about a hold.
func (l *late) of(h holding) calls {
	p := l.part(h)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[h]
}

func (l *late) add(h holding, t *tail) {
	p := l.part(h)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[h] = p.calls[h].with(t)
}

func (l *late) remove(h holding, t *tail) {
	p := l.part(h)
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.calls[h].without(t); left.last != nil {
		p.calls[h] = left
	} else {
		delete(p.calls, h)
	}
}

func (cs calls) with(t *tail) calls {
	if cs.last == nil {
		return calls{last: t}
	}
	return calls{last: t, earlier: append(slices.Clone(cs.earlier), cs.last)}
}

func (cs calls) without(t *tail) (left calls) {
	for _, other := range cs.earlier {
		if other != t {
			left = left.with(other)
		}
	}
	if cs.last != t && cs.last != nil {
		left = left.with(cs.last)
	}
	return left
}

// at are the members that have not answered all of these calls.
func (cs calls) at() (at set) {
	for _, t := range cs.earlier {
		at |= t.absent()
	}
	if cs.last != nil {
		at |= cs.last.absent()
	}
	return at
}

// each has something be done at each member when that has answered all of these calls.
func (cs calls) each(ms []*member, next func(*member)) {
	var all []*tail
	if cs.last != nil {
		all = append(slices.Clone(cs.earlier), cs.last)
	}
	for _, m := range ms {
		afterAll(all, m, next)
	}
}

func afterAll(before []*tail, m *member, next func(*member)) {
	for i, t := range before {
		if t.await(m, func() { afterAll(before[i+1:], m, next) }) {
			return
		}
	}
	next(m)
}

// tail is what is left of a call when it was decided.
type tail struct {
	s  *Store
	of []holding

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
func (t *tail) grow(s *Store, at set, of ...holding) {
	t.s, t.of = s, of
	t.mu.Lock()
	t.at = at
	t.mu.Unlock()
	for _, h := range of {
		s.late.add(h, t)
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
	var now, rest []afterwards
	for _, a := range t.then {
		if a.m == m {
			now = append(now, a)
		} else {
			rest = append(rest, a)
		}
	}
	t.then = rest
	t.mu.Unlock()
	if over {
		for _, h := range t.of {
			t.s.late.remove(h, t)
		}
	}
	for _, a := range now {
		a.next()
	}
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
	if before.last == nil {
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

// leaveOut is called when it is decided. Of the members whose turn has not come it leaves out all, or those that are
// silent, and returns those that have yet to answer. mu is held.
func (b *ballot[T]) leaveOut(all bool) (at set) {
	at = b.absent()
	for i, m := range b.s.members {
		if at.has(i) && !b.sentTo.has(i) && (all || m.silent.Load()) {
			b.leftOut.add(i)
		}
	}
	return at &^ b.leftOut
}

// errPassed: when the member's turn came, the outcome was known.
var errPassed = fmt.Errorf("%w: a majority decided without it", lock.ErrUnavailable)

// holdings are whose holds some claims are about.
func holdings(cs []lock.Claim) []holding {
	hs := make([]holding, len(cs))
	for i, c := range cs {
		hs[i] = holdingOf(c)
	}
	return hs
}
