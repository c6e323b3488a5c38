package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// Renew implements lock.Store. Each member is asked once for all holds. It compares the fences of all: what an attempt
// that failed has left at a member may be being undone there, and is not the hold that the owner got later, with a
// greater fence. A hold is put back at members that have not got it, if a majority has.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	var undecided sync.WaitGroup
	var sent []lock.Renewal    // to members, which may use them when Renew has returned
	var on []*ballot[struct{}] // each of those
	for i, r := range rs {
		if err := decides(ctx, r.Kind); err != nil {
			done(i, about("renew", r.Name, err))
			continue
		}
		r.TTL = s.drifted(r.TTL)
		undecided.Add(1)
		b := s.keep(isGone, func(m *member) { s.restore(m, r) }, func(err error) {
			done(i, about("renew", r.Name, err))
			undecided.Done()
		})
		b.quiet = true
		sent, on = append(sent, r), append(on, b)
	}
	if len(sent) == 0 {
		return
	}
	s.each(ctx, func(ctx context.Context, m *member) {
		m.Renew(ctx, slices.Clone(sent), func(i int, err error) { on[i].answer(m, struct{}{}, err) })
	})
	defer context.AfterFunc(ctx, func() {
		for _, b := range on {
			b.giveUp()
		}
	})()
	undecided.Wait()
}

func isGone(err error) bool {
	_, gone := errors.AsType[*lock.GoneError](err)
	return gone
}
