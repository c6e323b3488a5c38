package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// Renew implements lock.Store: each node renews what it has, all at the same time. What a node sends elsewhere goes
// there at once, within the time of one operation, whatever other nodes do meanwhile.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	at := make(map[*redisstore.Store][]int)
	for i := range rs {
		slot, err := s.slotOf(rs[i].Name)
		if err == nil {
			var node *redisstore.Store
			if node, err = s.owner(slot); err == nil {
				at[node] = append(at[node], i)
				continue
			}
		}
		done(i, err)
	}
	r := renewals{s: s, rs: rs, done: done, end: time.Now().Add(s.within)}
	r.renew(ctx, at, 0)
}

// renewals are the holds of one call.
type renewals struct {
	s    *Store
	rs   []lock.Renewal
	done func(i int, err error)
	end  time.Time
}

// renew has each node renew some holds, by their indexes, after so many moves. What was sent elsewhere is renewed
// alone: of the names of a slot that moves some are here and some there, and a call for both is refused.
func (r *renewals) renew(ctx context.Context, at map[*redisstore.Store][]int, moves int) {
	var wg sync.WaitGroup
	for node, all := range at {
		most := len(all)
		if moves > 0 {
			most = 1
		}
		for some := range slices.Chunk(all, most) {
			wg.Go(func() { r.renewAt(ctx, node, some, moves) })
		}
	}
	wg.Wait()
}

// renewAt has one node renew some holds, and then those to which they were sent.
func (r *renewals) renewAt(ctx context.Context, node *redisstore.Store, some []int, moves int) {
	part := make([]lock.Renewal, len(some))
	for k, i := range some {
		part[k] = r.rs[i]
	}
	var mu sync.Mutex // guards those below
	sent := make(map[*redisstore.Store][]int)
	var pause time.Duration
	node.Renew(ctx, part, func(k int, err error) {
		slot, _ := r.s.slotOf(part[k].Name) // it has one: it was sent there
		to, wait, again := r.s.redirect(slot, err, moves, r.end)
		if !again {
			r.done(some[k], err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sent[to] = append(sent[to], some[k])
		pause = max(pause, wait)
	})
	if len(sent) > 0 {
		time.Sleep(pause)
		r.renew(ctx, sent, moves+1)
	}
}
