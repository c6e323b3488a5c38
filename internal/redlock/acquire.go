package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	if err := decides(context.Background(), c.Kind); err != nil {
		go done(lock.Grant{}, about("acquire", c.Name, err))
		return
	}
	one := [...]lock.Claim{c}
	a := s.attempt(one[:], func(gs []lock.Grant, err error) {
		if err != nil {
			done(lock.Grant{}, about("acquire", c.Name, err))
			return
		}
		done(gs[0], nil)
	})
	a.given = make([]lock.Grant, len(s.members))
	for _, m := range s.members {
		m.StartAcquire(a.sent[0], func(g lock.Grant, err error) {
			place := a.given[m.number : m.number+1 : m.number+1] // nobody else looks there before the vote is cast
			place[0] = g
			a.cast(m, place, err)
		})
	}
	a.asked()
}

// AcquireAll implements lock.Store. Each member takes all or none.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	for _, c := range cs {
		if err := decides(ctx, c.Kind); err != nil {
			return nil, fmt.Errorf("acquire %q with others: %w", c.Name, err)
		}
	}
	if len(cs) == 0 {
		return nil, nil
	}
	gs, err := lock.Await(ctx, func(cs []lock.Claim, done func([]lock.Grant, error)) {
		var begun sync.WaitGroup
		begun.Add(len(s.members))
		a := s.attempt(cs, done)
		s.each(ctx, func(ctx context.Context, m *member) {
			begun.Done()
			gs, err := m.AcquireAll(ctx, slices.Clone(a.sent))
			a.cast(m, gs, err)
		})
		begun.Wait()
		a.asked()
	}, cs)
	if err != nil {
		return nil, fmt.Errorf("acquire %q with others: %w", cs[0].Name, err)
	}
	return gs, nil
}

// attempt is one claim of one name or of several at all members.
type attempt struct {
	ballot[[]lock.Grant]
	start  time.Time
	claims []lock.Claim
	sent   []lock.Claim // what members are asked for: with a fence, and for longer
	told   func([]lock.Grant, error)
	why    func(unclear bool) error // why it is refused; nil: see refusalLocked
	one    [2]lock.Claim            // the room of claims and sent, for one name
	given  []lock.Grant             // what each member granted, for one name
	// Guarded by mu:
	granted []lock.Fence // the fences to be told, once they are known
	raised  set          // the members that may have these fences because they were asked to raise theirs
	lost    bool         // nothing is granted, and what members took is undone
}

func (s *Store) attempt(cs []lock.Claim, told func([]lock.Grant, error)) *attempt {
	a := &attempt{start: time.Now(), told: told}
	if len(cs) == 1 {
		a.one = [...]lock.Claim{cs[0], cs[0]}
		a.claims, a.sent = a.one[:1:1], a.one[1:]
	} else {
		a.claims, a.sent = slices.Clone(cs), slices.Clone(cs)
	}
	for i := range a.sent {
		c := &a.sent[i]
		c.TTL, c.Place = s.drifted(c.TTL), s.drifted(c.Place)
		if c.Fence == 0 {
			c.Fence = s.fences.propose(a.start)
		}
	}
	a.decide, a.late, a.asking = a.verdictLocked, a.answeredLate, true
	a.open(s)
	return a
}

func (a *attempt) cast(m *member, gs []lock.Grant, err error) {
	for _, g := range gs {
		a.s.fences.saw(g.Fence)
	}
	a.answer(m, gs, err)
}

// standing counts the votes of an attempt.
type standing struct {
	tally
	voters      set // those that said yes and vote
	quarantined int // those that said yes in quarantine, and do not vote
}

// mayHold is how many members may have the claimed names, now or later.
func (st standing) mayHold() int { return st.yes + st.quarantined + st.unknown + st.missing }

func (a *attempt) standingLocked() standing {
	st := standing{tally: a.tallyLocked(), voters: a.votersLocked()}
	st.quarantined = st.yes - st.voters.len()
	st.yes -= st.quarantined
	return st
}

// verdictLocked is the ballot.decide of an attempt.
func (a *attempt) verdictLocked(last bool) (then func()) {
	st, q := a.standingLocked(), a.s.quorum
	if st.yes >= q {
		return a.winLocked(st, last)
	}
	last = last || st.no > 0 && (a.contendedLocked(st) || st.no > a.spare()) && !a.expectedLocked()
	if !last && (st.yes+st.missing >= q || st.mayHold() >= q || !a.clearLocked(st)) {
		return nil // the votes that are missing may make it clear
	}
	return a.loseLocked(st)
}

// winLocked is called when a majority granted the claims.
func (a *attempt) winLocked(st standing, last bool) (then func()) {
	if err := a.over(); err != nil {
		return a.failLocked(st, err)
	}
	fences := a.agreedLocked(st.voters)
	switch {
	case fences == nil && !last && a.expectedLocked() && a.mayBeToldLocked(st.voters):
		return nil
	case fences == nil:
		return a.raiseLocked()
	}
	a.granted = fences
	gs, votes := a.grantsLocked(st.voters), slices.Clone(a.votes)
	return func() {
		for _, v := range votes {
			a.align(v)
		}
		a.told(gs, nil)
	}
}

// errTooLate: nothing is left of the lease. The members keep it for a little longer, so the outcome is unknown.
var errTooLate = fmt.Errorf("%w: a majority granted it, but too late", lock.ErrOutcomeUnknown)

// over is the error if a grant must not be told although a majority gave it: the lease has ended by our clock, or a
// name was freed by force since the attempt began.
func (a *attempt) over() error {
	switch {
	case time.Since(a.start) >= a.claims[0].TTL:
		return errTooLate
	case a.s.forced.since(a.sent, a.start):
		return errForced
	}
	return nil
}

// grantsLocked are the grants to be told. A lease lasts as long as a majority of the members has it.
func (a *attempt) grantsLocked(voters set) []lock.Grant {
	gs := make([]lock.Grant, len(a.claims))
	var room [maxMembers]time.Duration
	for n := range gs {
		left := room[:0]
		for i, v := range a.votes {
			if voters.has(i) {
				left = append(left, trusted(v.v[n].TTL))
			}
		}
		slices.Sort(left)
		gs[n] = lock.Grant{Fence: a.granted[n], TTL: max(a.claims[n].TTL, left[len(left)-a.s.quorum])}
	}
	return gs
}

// loseLocked is called when there is no majority.
func (a *attempt) loseLocked(st standing) (then func()) {
	unclear := st.mayHold() >= a.s.quorum && st.unknown+st.missing > 0 && !a.contendedLocked(st)
	var err error
	switch {
	case a.why != nil:
		err = a.why(unclear)
	case unclear:
		err = errUnclear
	default:
		err = a.refusalLocked(st)
	}
	if err == nil { // nothing is left once members have undone what they said yes to
		err = noMajority(tally{unknown: st.unknown, missing: st.missing})
	}
	if a.repeats() && !unclear {
		return a.undoneLocked(err, st.mayHold()+st.away < a.s.quorum)
	}
	return a.failLocked(st, err)
}

// repeats is Owner.Repeats of the claims' owner.
func (a *attempt) repeats() bool { return a.sent[0].Owner.Repeats() }

// failLocked is called when no grant is told. What members took is undone, unless the owner repeats: then it may have
// been told at another replica, and stays until its TTL ends.
func (a *attempt) failLocked(st standing, err error) (then func()) {
	if a.repeats() {
		return func() { a.told(nil, err) }
	}
	if st.mayHold()+st.away >= a.s.quorum {
		a.s.vain.saw(a.sent[0].TTL + 2*a.s.cfg.CallTimeout + underWay)
	}
	return a.undoneLocked(err, true)
}

// behind says whether members that have not answered are asked to release, too: a release that is started after
// StartAcquire is carried out after it. It is false for AcquireAll, which a release might overtake, and for a writer,
// whose mark the release would give up: there each release waits for the member's answer.
func (a *attempt) behind() bool { return a.given != nil && !a.sent[0].Kind.Placed() }

// undoneLocked asks the members to release what they took, and then tells the outcome. nobodys says that no hold can
// have the fences that they gave.
func (a *attempt) undoneLocked(err error, nobodys bool) (then func()) {
	a.lost = true
	var all []func()
	for i, v := range a.votes {
		if v.from == nil {
			if !a.behind() {
				continue
			}
			v.err = errUnclear
		}
		all = append(all, a.undoLocked(a.s.members[i], v, nobodys)...)
	}
	return func() {
		for _, release := range all {
			release()
		}
		a.told(nil, err)
	}
}

// undoLocked are the releases at a member, unless it surely refused. They name the fence, because the same owner may be
// granted the name later, and go on at another replica, which takes the name at this member while our release is still
// on its way. That hold has a greater fence than any that is named here (agreedLocked).
func (a *attempt) undoLocked(m *member, v vote[[]lock.Grant], nobodys bool) (all []func()) {
	if v.err != nil && !isUnknown(v.err) {
		return nil
	}
	for n, c := range a.sent {
		r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence, Tenant: c.Tenant}
		switch {
		case a.raised.has(m.number):
			r.Fence = a.granted[n]
		case v.err == nil && (v.v[n].Fence < c.Fence && !a.repeats() || nobodys):
			r.Fence = v.v[n].Fence
		case v.err == nil && v.v[n].Fence != c.Fence:
			continue
		}
		all = append(all, func() { a.s.release(m, r) })
	}
	return all
}

// release asks a member for a release. The member repeats it if it has to.
func (s *Store) release(m *member, r lock.Return) {
	s.underWay.Add(1)
	m.StartRelease(r, func(lock.Returned, error) { s.underWay.Add(-1) })
}

// contendedLocked says whether a majority has answered, and only other owners are in the way there. If all attempts
// kept what they have, nobody would get the name as long as the rest is silent. It is false for an owner that repeats,
// which may do so at another replica, and must not find there what is being undone here.
func (a *attempt) contendedLocked(st standing) bool {
	others := a.refusalsLocked(lock.ErrHeld)
	return a.why == nil && others > 0 && others+st.yes >= a.s.quorum && !a.repeats()
}

// expectedLocked says whether a member that has not answered may do so soon, because it is not silent. While others are
// in the way, an attempt waits for no silent member: not to gain a majority, nor to learn why there is none.
func (a *attempt) expectedLocked() bool {
	return slices.ContainsFunc(a.s.members, func(m *member) bool {
		return a.votes[m.number].from == nil && !m.silent.Load()
	})
}

// answeredLate handles a vote that comes after the decision. If the attempt is lost, it undoes what the member took. If
// the member was already asked to, only a smaller fence, of an earlier attempt, is left to undo; a greater one may be
// of a later attempt.
func (a *attempt) answeredLate(v vote[[]lock.Grant]) {
	a.mu.Lock()
	var all []func()
	if a.lost && (!a.behind() || v.err == nil && v.v[0].Fence < a.sent[0].Fence) {
		all = a.undoLocked(v.from, v, false)
	}
	a.mu.Unlock()
	for _, release := range all {
		release()
	}
	a.align(v)
}

// align has a member raise its fences if they are less than the fences that were told.
func (a *attempt) align(v vote[[]lock.Grant]) {
	a.mu.Lock()
	granted, m := a.granted, v.from
	if a.lost || granted == nil || !v.yes() || a.raised.has(m.number) {
		a.mu.Unlock()
		return
	}
	var raise []lock.Claim
	for n, c := range a.sent {
		if c.Fence = granted[n]; v.v[n].Fence < c.Fence {
			raise = append(raise, c)
			a.raised.add(m.number)
		}
	}
	a.mu.Unlock()
	if len(raise) > 0 {
		a.s.run(context.Background(), func(ctx context.Context) { _ = raiseAt(ctx, m, raise) }) // else a renewal finds it
	}
}
