package redlock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// vote is what a member answered.
type vote[T any] struct {
	cast bool
	v    T
	err  error
}

// ballot collects the votes of all members on one question, and decides once.
type ballot[T any] struct {
	s *Store
	// decide is called after each vote, with mu held. It returns nil while there is no outcome, and then what is to be
	// called once mu is released. With last no further vote is waited for, so there must be an outcome.
	decide func(last bool) (then func())
	// late is called without mu for each vote that comes after that. It may be nil.
	late func(m *member, v vote[T])
	// patient: all members are waited for.
	patient bool
	// reads: it does not say which members are silent, as one that answers these may not answer requests that write.
	reads bool

	mu      sync.Mutex // guards the fields below
	votes   []vote[T]
	missing int
	over    bool
	sentTo  set         // the members that were asked, or are when it is open
	leftOut set         // those that are never asked, as it was decided before their turn
	timer   *time.Timer // ends the wait for those that are missing
}

// open makes room for the votes.
func (b *ballot[T]) open(s *Store) {
	b.s, b.votes, b.missing = s, make([]vote[T], len(s.members)), len(s.members)
	for _, m := range s.members {
		b.sentTo.add(m.number)
	}
	s.underWay.Add(int64(len(s.members)))
}

// answer takes the vote of a member.
func (b *ballot[T]) answer(m *member, v T, err error) {
	defer b.s.underWay.Add(-1)
	b.mu.Lock()
	cast := vote[T]{cast: true, v: v, err: err}
	b.votes[m.number] = cast
	b.missing--
	if !b.reads {
		m.heard(err)
	}
	if b.over {
		b.mu.Unlock()
		if b.late != nil {
			b.late(m, cast)
		}
		return
	}
	then := b.decide(b.missing == 0)
	if then == nil && b.timer == nil && !b.patient && b.tally().definite() >= b.s.quorum {
		b.timer = time.AfterFunc(b.s.cfg.NodeTimeout, b.giveUp)
	}
	b.unlock(then)
}

// giveUp decides without those that are missing.
func (b *ballot[T]) giveUp() {
	b.mu.Lock()
	var then func()
	if !b.over {
		for i, v := range b.votes {
			if !v.cast && !b.reads {
				b.s.members[i].silent.Store(true)
			}
		}
		then = b.decide(true)
	}
	b.unlock(then)
}

// unlock ends a section under mu, and calls what follows the decision if there was one.
func (b *ballot[T]) unlock(then func()) {
	if then != nil {
		b.over = true
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	b.mu.Unlock()
	if then != nil {
		then()
	}
}

// tally counts votes.
type tally struct {
	yes     int
	no      int // refused, and nothing done
	away    int // surely nothing done, and nothing known
	unknown int
	missing int
}

// definite is how many said yes or no.
func (t tally) definite() int { return t.yes + t.no }

// tally counts the votes. mu is held.
func (b *ballot[T]) tally() (t tally) {
	for _, v := range b.votes {
		switch {
		case !v.cast:
			t.missing++
		case v.err == nil:
			t.yes++
		case errors.Is(v.err, lock.ErrOutcomeUnknown):
			t.unknown++
		case errors.Is(v.err, lock.ErrUnavailable):
			t.away++
		default:
			t.no++
		}
	}
	return t
}

// spare is how many members a majority can do without.
func (b *ballot[T]) spare() int { return len(b.votes) - b.s.quorum }

// refusals counts the refusals that are a certain error. mu is held.
func (b *ballot[T]) refusals(of error) (n int) {
	for _, v := range b.votes {
		if v.cast && errors.Is(v.err, of) && !failed(v.err) {
			n++
		}
	}
	return n
}

// preventing is the first of some errors that so many members gave that there is no majority without them; nil if none
// is. mu is held.
func (b *ballot[T]) preventing(of ...error) error {
	for _, err := range of {
		if b.refusals(err) > b.spare() {
			return b.first(err)
		}
	}
	return nil
}

// first is the first vote that is a certain error. mu is held.
func (b *ballot[T]) first(of error) error {
	for _, v := range b.votes {
		if v.cast && errors.Is(v.err, of) && !failed(v.err) {
			return v.err
		}
	}
	return of
}

// failed says whether a member said neither yes nor no.
func failed(err error) bool {
	return errors.Is(err, lock.ErrOutcomeUnknown) || errors.Is(err, lock.ErrUnavailable)
}

// errUnclear: so few members answered that the outcome is unknown.
var errUnclear = fmt.Errorf("%w: no majority of the stores answered", lock.ErrOutcomeUnknown)

// noMajority is the error of a call for which no majority could be found. Something may have been done if anybody said
// yes, or did not say.
func noMajority(t tally) error {
	if t.yes+t.unknown+t.missing > 0 {
		return errUnclear
	}
	return lock.ErrNoQuorum
}
