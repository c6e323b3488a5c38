package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	return wait(ctx, func(done func(lock.Grant, error)) { s.StartAcquire(c, done) })
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	if err := decides(c.Kind); err != nil {
		go done(lock.Grant{}, acquireFailed(c.Name, err))
		return
	}
	one := [...]lock.Claim{c}
	a := s.attempt(one[:], func(gs []lock.Grant, err error) {
		if err != nil {
			done(lock.Grant{}, acquireFailed(c.Name, err))
			return
		}
		done(gs[0], nil)
	})
	a.given = make([]lock.Grant, len(s.members))
	var before calls
	if c.WriteOwner != "" { // who reads already is in the way of the write hold
		before = s.late.of(holding{c.Name, c.WriteOwner})
	}
	before.each(s.members, a.ask)
}

// ask has a member take one name.
func (a *attempt) ask(m *member) {
	m.StartAcquire(a.sent[0], func(g lock.Grant, err error) {
		place := a.given[m.number : m.number+1 : m.number+1] // nobody else looks there before the vote is cast
		place[0] = g
		a.cast(m, place, err)
	})
}

func acquireFailed(name string, err error) error { return fmt.Errorf("acquire %q: %w", name, err) }

// AcquireAll implements lock.Store. Each member takes all or none.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	for _, c := range cs {
		if err := decides(c.Kind); err != nil {
			return nil, fmt.Errorf("acquire %q with others: %w", c.Name, err)
		}
	}
	if len(cs) == 0 {
		return nil, nil
	}
	gs, err := wait(ctx, func(done func([]lock.Grant, error)) {
		a := s.attempt(cs, done)
		s.each(ctx, func(ctx context.Context, m *member) {
			gs, err := m.AcquireAll(ctx, slices.Clone(a.sent))
			a.cast(m, gs, err)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("acquire %q with others: %w", cs[0].Name, err)
	}
	return gs, nil
}

// attempt is one claim of one name or of several at all members.
type attempt struct {
	ballot[[]lock.Grant]
	start time.Time
	asked []lock.Claim
	sent  []lock.Claim // what members are asked for: with a fence, and for longer
	told  func([]lock.Grant, error)
	why   func(standing) error // it is refused, if that is not refusal
	one   [2]lock.Claim        // what asked and sent are of, if it is one name
	hold  [1]holding           // and of
	given []lock.Grant         // what each member granted, if it is one name
	// granted are the fences that are told. They are nil until it is decided, and when it is decided otherwise.
	granted []lock.Fence
	// undo says that what members do late is to be undone.
	undo bool
}

func (s *Store) attempt(cs []lock.Claim, told func([]lock.Grant, error)) *attempt {
	a := &attempt{start: time.Now(), told: told}
	if len(cs) == 1 {
		a.one = [...]lock.Claim{cs[0], cs[0]}
		a.asked, a.sent = a.one[:1:1], a.one[1:]
	} else {
		a.asked, a.sent = slices.Clone(cs), slices.Clone(cs)
	}
	for i := range a.sent {
		c := &a.sent[i]
		c.TTL, c.Place = s.drifted(c.TTL), s.drifted(c.Place)
		if c.Fence == 0 {
			c.Fence = s.fences.propose(a.start)
		}
	}
	a.of = a.hold[:0]
	for _, c := range a.sent {
		a.of = append(a.of, holdingOf(c))
	}
	a.decide, a.late = a.verdict, a.tooLate
	a.open(s)
	return a
}

// cast takes the vote of a member.
func (a *attempt) cast(m *member, gs []lock.Grant, err error) {
	for _, g := range gs {
		a.s.fences.saw(g.Fence)
	}
	a.answer(m, gs, err)
}

// standing is what the votes of an attempt amount to.
type standing struct {
	tally
	voters set // those that said yes and vote
	silent int // those that said yes and do not vote
}

// mayHold is how many members may have what was claimed, now or later.
func (st standing) mayHold() int { return st.yes + st.silent + st.unknown + st.missing }

func (a *attempt) standing() standing {
	st := standing{tally: a.tally()}
	for i, v := range a.votes {
		switch {
		case !v.cast || v.err != nil:
		case a.s.quarantined(a.s.members[i]):
			st.yes--
			st.silent++
		default:
			st.voters.add(i)
		}
	}
	return st
}

// verdict is what the votes amount to, as ballot.decide has it. mu is held.
func (a *attempt) verdict(last bool) (then func()) {
	st, q := a.standing(), a.s.quorum
	last = last || (a.contended(st) || st.no > a.spare()) && !a.expected()
	switch {
	case st.yes >= q:
		return a.win(st, last)
	case !last && (st.yes+st.missing >= q || st.mayHold() >= q || !a.clear(st)):
		return nil // those that are missing may make it clear
	}
	return a.lose(st)
}

// win is called when a majority granted it. mu is held.
func (a *attempt) win(st standing, last bool) (then func()) {
	if a.expired() {
		return a.tell(nil, errTooLate)
	}
	if a.forced() {
		return a.tell(nil, errForced)
	}
	fences := a.agreed(st.voters)
	switch {
	case fences == nil && !last && a.expected() && a.mayBeTold(st.voters):
		return nil
	case fences == nil:
		return a.raise()
	}
	a.granted = fences
	a.repeated(st.voters)
	return a.tell(a.grants(st.voters), nil)
}

// errTooLate: nothing is left of the lease. The members have it for a little while yet, so the outcome is unknown.
var errTooLate = fmt.Errorf("%w: a majority granted it, but too late", lock.ErrOutcomeUnknown)

// expired says whether the lease is over by our clock.
func (a *attempt) expired() bool {
	return time.Since(a.start) >= a.asked[0].TTL
}

// forced says whether a name was freed by force since it began.
func (a *attempt) forced() bool { return a.s.forcedSince(a.sent, a.start) }

// tell is what follows when the outcome is clear.
func (a *attempt) tell(gs []lock.Grant, err error) (then func()) {
	return func() { a.told(gs, err) }
}

// grants are what is told. The lease lasts as long as a majority has it. mu is held.
func (a *attempt) grants(voters set) []lock.Grant {
	gs := make([]lock.Grant, len(a.asked))
	var room [maxMembers]time.Duration
	for n := range gs {
		left := room[:0]
		for i, v := range a.votes {
			if voters.has(i) {
				left = append(left, trusted(v.v[n].TTL))
			}
		}
		slices.Sort(left)
		gs[n] = lock.Grant{Fence: a.granted[n], TTL: max(a.asked[n].TTL, left[len(left)-a.s.quorum])}
	}
	return gs
}

// lose is called when there is no majority. mu is held.
//
// If a majority may have granted all the same and nobody contends for the name, nothing is released: the outcome is
// unknown, and the caller repeats or releases. Otherwise members release what they granted, or may have granted:
//
//   - with the fence that was proposed, which only this attempt can have;
//   - with another fence if no hold can have it: too few members have it, or the owner never repeats a request, so that
//     it comes from an earlier attempt of unknown outcome.
//
// No later attempt of the owner is granted with a fence that is being released (see agreed).
func (a *attempt) lose(st standing) (then func()) {
	if st.mayHold() >= a.s.quorum && st.unknown+st.missing > 0 && !a.contended(st) {
		return a.tell(nil, errUnclear)
	}
	why := a.refusal
	if a.why != nil {
		why = a.why
	}
	err := why(st)
	nobodys := st.mayHold()+st.away < a.s.quorum
	if st.mayHold() >= a.s.quorum { // some do not vote yet, or are silent
		a.s.abandon(a.s.undoneWithin(a.sent[0].TTL), a.sent...)
	}
	if err == nil { // nothing is left once members have undone what they said yes to
		err = noMajority(tally{unknown: st.unknown, missing: st.missing})
	}
	a.undo = true
	var all []*leftover
	for i, v := range a.votes {
		for n, c := range a.sent {
			l := a.leftAt(a.s.members[i], c, sure)
			switch {
			case v.cast && v.err == nil && v.v[n].Fence == c.Fence:
			case v.cast && v.err == nil && (nobodys || !c.Owner.Repeats()):
				a.s.abandon(a.s.undoneWithin(a.sent[0].TTL), c)
				l.r.Fence = v.v[n].Fence
			case v.cast && isUnknown(v.err):
				l.again = unsure
			default:
				continue
			}
			all = append(all, l)
		}
	}
	return func() {
		for _, l := range all {
			a.s.undo(l)
		}
		a.told(nil, err)
	}
}

// leftAt is what may be left of the attempt at a member. A lease that is taken now ends by itself.
func (a *attempt) leftAt(m *member, c lock.Claim, again certainty) *leftover {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence}
	return &leftover{m: m, r: r, end: time.Now().Add(a.sent[0].TTL), again: again}
}

// contended says whether a majority has answered, and nothing but others is in the way there. If all of them kept what
// they have, nobody would get the name as long as the rest is silent. Who repeats asks elsewhere for the same owner,
// and must not find there what is being undone.
func (a *attempt) contended(st standing) bool {
	others := a.refusals(lock.ErrHeld)
	return a.why == nil && others > 0 && others+st.yes >= a.s.quorum &&
		!slices.ContainsFunc(a.sent, func(c lock.Claim) bool { return c.Owner.Repeats() })
}

// expected says whether one of the members that have not answered may do so soon. While others are in the way, what an
// attempt has is not kept from them to wait for such as are silent; nor does anybody wait for them to learn why there
// is no majority. mu is held.
func (a *attempt) expected() bool {
	return slices.ContainsFunc(a.s.members, func(m *member) bool {
		return !a.votes[m.number].cast && !m.silent.Load()
	})
}

// tooLate looks after what a member did when it was decided.
func (a *attempt) tooLate(m *member, v vote[[]lock.Grant]) {
	raise := a.lookAfter(m, v)
	if len(raise) == 0 {
		a.tail.settled(m)
		return
	}
	a.s.run(context.Background(), func(ctx context.Context) {
		defer a.tail.settled(m)
		for _, c := range raise {
			_, _ = m.Raise(ctx, c) // a renewal finds it otherwise
		}
	})
}

// lookAfter returns what has too small a fence there.
func (a *attempt) lookAfter(m *member, v vote[[]lock.Grant]) (raise []lock.Claim) {
	a.mu.Lock()
	granted, undo := a.granted, a.undo
	a.mu.Unlock()
	for n, c := range a.sent {
		switch {
		case undo && v.err == nil: // unless it is the hold of a later attempt
			a.s.undo(a.leftAt(m, c, sure))
		case undo && isUnknown(v.err):
			a.s.undo(a.leftAt(m, c, unsure))
		case granted != nil && v.err == nil && v.v[n].Fence > granted[n]:
			c.Fence = granted[n]
			a.s.isOdd(m, c, v.v[n].Fence)
		case granted != nil && v.err == nil && v.v[n].Fence < granted[n]:
			c.Fence = granted[n]
			raise = append(raise, c)
		}
	}
	return raise
}
