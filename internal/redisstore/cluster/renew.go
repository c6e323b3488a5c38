package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// Renew implements lock.Store: each node renews what it has, all at the same time. A renewal that a node redirects goes
// to the other node at once, within the time of one operation, whatever other nodes do meanwhile. It goes alone: while
// a slot moves, each node has some of its names, and refuses a call that is also for others.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	at := make(map[*redisstore.Store][]int)
	for i := range rs {
		slot, err := s.slotOf(rs[i].Name)
		var node *redisstore.Store
		if err == nil {
			node, err = s.owner(slot)
		}
		if err != nil {
			done(i, err)
			continue
		}
		at[node] = append(at[node], i)
	}
	end := time.Now().Add(s.within)
	var wg sync.WaitGroup
	for node, some := range at {
		part := make([]lock.Renewal, len(some))
		for k, i := range some {
			part[k] = rs[i]
		}
		wg.Go(func() {
			node.Renew(ctx, part, func(k int, err error) {
				slot, _ := s.slotOf(part[k].Name) // it has one: it was sent there
				to, pause, again := s.redirect(slot, err, 0, end)
				if !again {
					done(some[k], err)
					return
				}
				wg.Go(func() {
					for moves := 1; again; moves++ {
						time.Sleep(pause)
						to.Renew(ctx, part[k:k+1], func(_ int, outcome error) { err = outcome })
						to, pause, again = s.redirect(slot, err, moves, end)
					}
					done(some[k], err)
				})
			})
		})
	}
	wg.Wait()
}
