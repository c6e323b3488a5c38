package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

const (
	// maxTogether is what the operations of one call cost at most, in operations of exclusive locks. With 64 the overhead
	// of the call is a hundredth of its work, and Redis is busy for a quarter of a millisecond, or for half of one if no
	// case is ordinary: a tenth of what a script may take.
	maxTogether = 64
	// fewTogether is how many operations go as one call at least. One alone has nothing to share.
	fewTogether = 2
)

// gather makes packets of operations that wait at the same time, in the order in which they wait.
func (s *Store) gather(jobs []pipe.Job) []pipe.Packet {
	var packets []pipe.Packet
	for _, group := range s.groups(jobs) {
		if len(group) >= s.fewTogether {
			packets = append(packets, s.together(group))
			continue
		}
		for i := range group {
			packets = append(packets, s.alone(group[i:i+1:i+1]))
		}
	}
	return packets
}

// alone is a call of the operation's own script, for a group of one.
func (s *Store) alone(group []pipe.Job) pipe.Packet {
	op := operationOf(group[0])
	c := op.call()
	cmd := c.Command(context.Background())
	return pipe.Packet{Jobs: group, Cmd: cmd, Grants: c.Grants, Done: func(err error) {
		op.answered(time.Since(group[0].Queued), op.read(s.Answered(cmd, err)))
	}}
}

// operationOf is the operation of a job. Nothing else is queued as a Single.
func operationOf(j pipe.Job) *operation { return j.Single.(*operation) }

// groups cuts jobs into those that may go into one call. In a cluster all keys of a call must be in one slot. The jobs
// of one name stay in their order.
func (s *Store) groups(jobs []pipe.Job) (all [][]pipe.Job) {
	if !s.InSlots {
		for first, cost := 0, 0; first < len(jobs); cost = 0 {
			next := first
			for next < len(jobs) && cost+jobs[next].Cost <= maxTogether {
				cost += jobs[next].Cost
				next++
			}
			all = append(all, jobs[first:next:next])
			first = next
		}
		return all
	}
	type group struct{ at, cost int } // where in all it is, and what is in it
	last := make(map[int]*group, len(jobs))
	for _, j := range jobs {
		slot := layout.Slot(operationOf(j).texts[0])
		g := last[slot]
		if g == nil || g.cost+j.Cost > maxTogether {
			g, all = &group{at: len(all)}, append(all, nil)
			last[slot] = g
		}
		g.cost += j.Cost
		all[g.at] = append(all[g.at], j)
	}
	return all
}

// together is one call for a group.
func (s *Store) together(group []pipe.Job) pipe.Packet {
	c := s.Scripts.Many.Call(5*len(group) + 2)
	ops := make([]byte, len(group))
	for i, j := range group {
		op := operationOf(j)
		ops[i] = op.letter
		c.Words = pointTo(c.Words, op.texts[:op.keys])
		c.Keys += op.keys
		c.Cost += j.Cost
		c.Grants = c.Grants || op.grants()
	}
	c.Words = append(c.Words, ops, s.FenceMillis)
	for _, j := range group {
		op := operationOf(j)
		c.Words = pointTo(c.Words, op.texts[op.keys:op.n])
	}
	begun, cmd := time.Now(), c.Command(context.Background())
	return pipe.Packet{Jobs: group, Cmd: cmd, Grants: c.Grants, Done: func(err error) {
		now := time.Now()
		c.Observe(now.Sub(begun))
		all := outcomeRooms.Get().(*[]outcome) //nolint:forcetypeassert // nothing else is put there
		*all = s.outcomes((*all)[:0], group, cmd, err)
		for i, o := range *all {
			operationOf(group[i]).answered(now.Sub(group[i].Queued), o)
		}
		clear(*all)
		outcomeRooms.Put(all)
	}}
}

// outcomeRooms keeps slices of outcomes for later calls.
var outcomeRooms = sync.Pool{New: func() any { return new([]outcome) }}

// outcomes reads what script/many.lua answered, and reuses the memory of all. If any element is none that this script
// gives, the outcome of all is unknown.
func (s *Store) outcomes(all []outcome, group []pipe.Job, cmd *redis.Cmd, err error) []outcome {
	all = slices.Grow(all, len(group))[:len(group)]
	var list []any
	few, err := script.TooFew(err)
	if err == nil {
		list, err = cmd.Slice()
		if err != nil || len(list) != len(group) {
			err = fmt.Errorf("%w: %v for %d locks", script.ErrBadAnswer, cmd.Val(), len(group))
		}
	}
	for i := 0; err == nil && i < len(group); i++ {
		all[i] = operationOf(group[i]).element(list[i])
		if o := &all[i]; few != nil && o.err == nil && (o.grant.Fence != 0 || o.back.HandedOver != 0) {
			*o = operationOf(group[i]).failed(few)
		}
		if errors.Is(all[i].err, script.ErrBadAnswer) {
			err = fmt.Errorf("%w: element %d of %d", script.ErrBadAnswer, i, len(group)) // without it: it may name others' locks
		}
	}
	if err != nil {
		for i, j := range group {
			all[i] = operationOf(j).failed(s.Failed(err))
		}
	}
	return all
}
