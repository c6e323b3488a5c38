package redlock

import (
	"slices"
	"sync"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

// eager is a member that has told its answer before it returns.
type eager struct{ lock.Store }

// answered starts a call and returns when its answer has been told.
func answered[R, T any](start func(R, func(T, error)), r R, done func(T, error)) {
	told := make(chan struct{})
	start(r, func(v T, err error) {
		done(v, err)
		close(told)
	})
	<-told
}

func (p eager) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	answered(p.Store.StartAcquire, c, done)
}

func (p eager) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	answered(p.Store.StartRelease, r, done)
}

// Nothing is told before a call that starts something returns, however soon members answer: callers hold mutexes.
func TestNothingIsToldBeforeACallReturns(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		var members []lock.Store
		for _, n := range w.nodes {
			members = append(members, eager{n})
		}
		s := w.over(Config{}, members...)
		var mu sync.Mutex
		under := func(start func(told func())) {
			over := make(chan struct{})
			mu.Lock()
			start(func() {
				mu.Lock()
				defer mu.Unlock()
				close(over)
			})
			mu.Unlock()
			<-over
		}
		for _, o := range []lock.Owner{"s:#1", "s:#2"} { // the second one is refused
			under(func(told func()) { s.StartAcquire(claimOf("n", o), func(lock.Grant, error) { told() }) })
		}
		release := func(r lock.Return, then ...lock.Owner) {
			under(func(told func()) { s.StartRelease(r, func(lock.Returned, error) { told() }) })
			if os := w.holders("n"); !slices.Equal(os, then) { // all are asked, also when a majority has answered
				t.Errorf("%q have it, want %q", os, then)
			}
		}
		next := returnOf("n", "s:#1", 0)
		next.Next = &lock.Successor{Owner: "s:#3", TTL: claimOf("n", "s:#3").TTL}
		release(next, "s:#3", "s:#3", "s:#3")
		release(returnOf("n", "s:#3", 0), "", "", "")
	})
}
