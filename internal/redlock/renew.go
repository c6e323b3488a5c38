package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// Renew implements lock.Store. Each member is asked once for all holds, and compares their fences: a hold with a
// smaller fence may be left from an attempt that failed, and about to be undone. If a majority has a hold, it is put
// back at members that lack it.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	var undecided sync.WaitGroup
	var sent []lock.Renewal    // a copy, because members may use it after Renew has returned
	var on []*ballot[struct{}] // the ballot on each of sent
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
