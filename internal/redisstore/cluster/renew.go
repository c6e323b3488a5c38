package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// Renew implements lock.Store: each node renews what it has, all at the same time. What a node sends elsewhere goes there in another
// round, within the time of one operation.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	end := time.Now().Add(s.within)
	left := make(map[*redisstore.Store][]int)
	for i := range rs {
		at, err := s.where(rs[i].Name)
		if err != nil {
			done(i, err)
			continue
		}
		left[at] = append(left[at], i)
	}
	for moves := 0; len(left) > 0; moves++ {
		r := round{s: s, rs: rs, done: done, end: end, moves: moves, sent: make(map[*redisstore.Store][]int)}
		r.renew(ctx, left)
		time.Sleep(r.pause)
		left = r.sent
	}
}

// round is one attempt to renew.
type round struct {
	s    *Store
	rs   []lock.Renewal
	done func(i int, err error)
	end  time.Time
	// moves is how many rounds were before.
	moves int

	mu    sync.Mutex // guards the fields below
	sent  map[*redisstore.Store][]int
	pause time.Duration
}

// renew has each node renew some holds, by their indexes. What was sent elsewhere is renewed alone: of the names of a slot that
// moves some are here and some there, and a call for both is refused.
func (r *round) renew(ctx context.Context, at map[*redisstore.Store][]int) {
	var wg sync.WaitGroup
	for node, all := range at {
		most := len(all)
		if r.moves > 0 {
			most = 1
		}
		for some := range slices.Chunk(all, most) {
			wg.Go(func() {
				part := make([]lock.Renewal, len(some))
				for k, i := range some {
					part[k] = r.rs[i]
				}
				node.Renew(ctx, part, func(k int, err error) { r.tell(some[k], err) })
			})
		}
	}
	wg.Wait()
}

// tell passes an outcome on, unless the hold is to be renewed elsewhere.
func (r *round) tell(i int, err error) {
	next, again := r.s.redirect(r.rs[i].Name, err)
	next = next.after(r.moves)
	if !again || time.Now().Add(next.pause).After(r.end) {
		r.done(i, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[next.to] = append(r.sent[next.to], i)
	r.pause = max(r.pause, next.pause)
}
