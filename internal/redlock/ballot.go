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

// vote is what a member answered.
type vote[T any] struct {
	from *member // nil until it has
	v    T
	err  error
}

func (v vote[T]) yes() bool { return v.from != nil && v.err == nil }

// ballot collects the votes of all members on one question, and decides once.
type ballot[T any] struct {
	s *Store
	// decide is called after each vote, with mu held. It returns nil while there is no outcome, else the function to call
	// once mu is released. With last, no further vote is awaited, so there must be an outcome.
	decide func(last bool) (then func())
	// late is called, without mu, for each vote that comes after the outcome. It may be nil.
	late func(v vote[T])
	// patient: the decision waits for all members.
	patient bool
	// quiet: the answers do not change which members are silent. A member that answers reads or renewals may not answer
	// requests that write.
	quiet bool
	// tries is how many times NodeTimeout the ballot waits for missing votes; 0 is one.
	tries int

	mu      sync.Mutex // guards the fields below
	votes   []vote[T]
	missing int
	asking  bool // some members have not been asked yet
	over    bool
	timer   *time.Timer // ends the wait for the missing votes
}

// open begins the ballot.
func (b *ballot[T]) open(s *Store) {
	b.s, b.votes, b.missing = s, make([]vote[T], len(s.members)), len(s.members)
	s.underWay.Add(int64(len(s.members)))
}

func (b *ballot[T]) answer(m *member, v T, err error) {
	defer b.s.underWay.Add(-1)
	b.mu.Lock()
	cast := vote[T]{from: m, v: v, err: err}
	b.votes[m.number] = cast
	b.missing--
	if !b.quiet {
		m.heard(err)
	}
	if b.over {
		b.mu.Unlock()
		if b.late != nil {
			b.late(cast)
		}
		return
	}
	b.unlock(b.countedLocked())
}

// asked must be called when all members have been asked, if asking was set. So requests that follow from the outcome
// come behind the first ones. The outcome is told by another goroutine, because the caller may hold a mutex that the
// one who is told locks.
func (b *ballot[T]) asked() {
	b.mu.Lock()
	b.asking = false
	then := b.countedLocked()
	if told := then; told != nil {
		b.s.underWay.Add(1)
		then = func() {
			go func() {
				defer b.s.underWay.Add(-1)
				told()
			}()
		}
	}
	b.unlock(then)
}

// countedLocked decides if it can, or starts the timer for the missing votes.
func (b *ballot[T]) countedLocked() (then func()) {
	if b.asking {
		return nil
	}
	if !b.patient || b.missing == 0 {
		then = b.decide(b.missing == 0)
	}
	if then == nil && b.timer == nil && !b.patient && b.tallyLocked().definite() >= b.s.quorum {
		b.timer = time.AfterFunc(time.Duration(max(b.tries, 1))*b.s.cfg.NodeTimeout, b.giveUp)
	}
	return then
}

// giveUp decides without the missing votes.
func (b *ballot[T]) giveUp() {
	b.mu.Lock()
	var then func()
	if !b.over {
		for i, v := range b.votes {
			if v.from == nil && !b.quiet {
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

// question is asked of all members, about a name of a kind. what and name are for the error.
type question[T any] struct {
	what, name string
	kind       lock.Kind
	ask        func(ctx context.Context, m *member) (T, error)
	// verdict is the outcome if over; see ballot.decide. mu is held.
	verdict        func(b *ballot[T], last bool) (one T, over bool, err error)
	patient, quiet bool
}

// put asks the question and waits for the verdict, or until ctx ends. A patient question waits for all members even
// then.
func (q question[T]) put(ctx context.Context, s *Store) (one T, err error) {
	told := make(chan vote[T], 1)
	if err = decides(ctx, q.kind); err == nil {
		b := open(s, q.verdict, func(one T, err error) { told <- vote[T]{v: one, err: err} })
		b.patient, b.quiet = q.patient, q.quiet
		s.each(ctx, func(ctx context.Context, m *member) {
			v, err := q.ask(ctx, m)
			b.answer(m, v, err)
		})
		over := ctx.Done()
		if q.patient {
			over = nil
		}
		select {
		case o := <-told:
			one, err = o.v, o.err
		case <-over:
			err = fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, context.Cause(ctx))
		}
	}
	if err != nil {
		one = *new(T)
	}
	return one, about(q.what, q.name, err)
}

// open begins a ballot whose verdict is told to done.
func open[T, R any](s *Store, verdict func(b *ballot[T], last bool) (R, bool, error), done func(R, error)) *ballot[T] {
	b := &ballot[T]{}
	b.decide = func(last bool) func() {
		r, over, err := verdict(b, last)
		if !over {
			return nil
		}
		return func() { done(r, err) }
	}
	b.open(s)
	return b
}

// ask puts a question whose answer is only an error.
func (s *Store) ask(ctx context.Context, what, name string, kind lock.Kind, patient bool,
	call func(context.Context, *member) error,
) error {
	_, err := question[struct{}]{
		what: what, name: name, kind: kind, patient: patient,
		ask:     func(ctx context.Context, m *member) (struct{}, error) { return struct{}{}, call(ctx, m) },
		verdict: oneWord[struct{}],
	}.put(ctx, s)
	return err
}

// oneWord is the verdict on a question that is answered by yes or an error.
func oneWord[T any](b *ballot[T], last bool) (none T, over bool, err error) { //nolint:unparam // it is a verdict
	if b.tallyLocked().yes >= b.s.quorum {
		return none, true, nil
	}
	err = b.againstLocked(last)
	return none, err != nil, err
}

// againstLocked is why no majority says yes, nil if that is not known yet.
func (b *ballot[T]) againstLocked(last bool) error {
	err := cmp.Or(b.goneLocked(), b.preventingLocked(refused...))
	if err == nil && last {
		err = noMajority(b.tallyLocked())
	}
	return err
}

// refused are the errors that a majority can give.
var refused = []error{
	lock.ErrNotHeld, lock.ErrKindMismatch, lock.ErrStoreFull, lock.ErrUnsupported, lock.ErrInvalid,
	lock.ErrSuperseded, lock.ErrToken, lock.ErrSessionGone,
}

// goneLocked is a *lock.GoneError if so many members lack the hold that no majority can have it. The reason is LostData
// if a majority would have it but for the members that lost their data.
func (b *ballot[T]) goneLocked() error {
	forced, data := 0, 0
	for _, v := range b.votes {
		if gone, ok := errors.AsType[*lock.GoneError](v.err); ok {
			if gone.Reason == lock.LostData {
				data++
			} else {
				forced++
			}
		}
	}
	switch {
	case forced > b.spare():
		return &lock.GoneError{Reason: lock.LostForced}
	case forced+data > b.spare():
		return &lock.GoneError{Reason: lock.LostData}
	}
	return nil
}

// keep begins a ballot on something that all members should have. Once a majority has it, restore is called for each
// member that says it is missing.
func (s *Store) keep(missing func(error) bool, restore func(*member), done func(error)) *ballot[struct{}] {
	b := &ballot[struct{}]{}
	kept := false // once it is decided
	b.decide = func(last bool) func() {
		_, over, err := oneWord(b, last)
		if !over {
			return nil
		}
		kept = err == nil
		var without []*member
		for _, v := range b.votes {
			if kept && missing(v.err) {
				without = append(without, v.from)
			}
		}
		return func() {
			done(err)
			for _, m := range without {
				restore(m)
			}
		}
	}
	b.late = func(v vote[struct{}]) {
		if kept && missing(v.err) {
			restore(v.from)
		}
	}
	b.open(s)
	return b
}

type tally struct {
	yes     int
	no      int // refused: nothing done
	away    int // could not be reached: nothing done, and nothing known
	unknown int
	missing int
}

func (t tally) definite() int { return t.yes + t.no }

func (b *ballot[T]) tallyLocked() (t tally) {
	for _, v := range b.votes {
		switch {
		case v.from == nil:
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

// votersLocked are the members that said yes and are not quarantined.
func (b *ballot[T]) votersLocked() (of set) {
	for i, v := range b.votes {
		if v.yes() && !b.s.quarantined(v.from) {
			of.add(i)
		}
	}
	return of
}

// spare is how many members a majority can do without.
func (b *ballot[T]) spare() int { return len(b.votes) - b.s.quorum }

func (b *ballot[T]) refusalsLocked(of error) (n int) {
	for _, v := range b.votes {
		if errors.Is(v.err, of) && !failed(v.err) {
			n++
		}
	}
	return n
}

// preventingLocked is the first of some errors that prevents a majority, because so many members gave it; nil if none
// does.
func (b *ballot[T]) preventingLocked(of ...error) error {
	for _, err := range of {
		if b.refusalsLocked(err) > b.spare() {
			return b.firstLocked(err)
		}
	}
	return nil
}

func (b *ballot[T]) firstLocked(of error) error {
	for _, v := range b.votes {
		if errors.Is(v.err, of) && !failed(v.err) {
			return v.err
		}
	}
	return of
}

// failed says whether a member said neither yes nor no.
func failed(err error) bool {
	return isUnknown(err) || errors.Is(err, lock.ErrUnavailable)
}

func isUnknown(err error) bool { return errors.Is(err, lock.ErrOutcomeUnknown) }

// errUnclear: too few members answered, so the outcome is unknown.
var errUnclear = fmt.Errorf("%w: no majority of the stores answered", lock.ErrOutcomeUnknown)

// noMajority is the error of a call without a majority. Its outcome is unknown if any member said yes, or did not
// answer.
func noMajority(t tally) error {
	if t.yes+t.unknown+t.missing > 0 {
		return errUnclear
	}
	return lock.ErrNoQuorum
}
