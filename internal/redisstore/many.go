package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

const (
	// maxTogether is how many operations go into one call. With 64 the call by itself costs a hundredth of what it does,
	// and Redis is busy with it for a quarter of a millisecond, or half of one if no case is the ordinary one: a tenth
	// of what a script may.
	maxTogether = 64
	// fewTogether is from how many on they do. One alone has nothing to share.
	fewTogether = 2
)

// gather makes packets of operations that wait at the same time, in their order.
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

// alone is a call for a group of one, by its own script.
func (s *Store) alone(group []pipe.Job) pipe.Packet {
	op := operationOf(group[0])
	c := op.call()
	cmd := c.Command(context.Background())
	return pipe.Packet{Jobs: group, Cmd: cmd, Grants: c.Grants, Done: func(err error) {
		op.answered(group[0].Queued, op.read(s.Answered(cmd, err)))
	}}
}

// operationOf is the operation that is queued: nothing else is queued as a single.
func operationOf(j pipe.Job) *operation { return j.Single.(*operation) }

// groups says what may go into one call. In a cluster all keys of a call must be in one slot; those of one name stay in
// their order.
func (s *Store) groups(jobs []pipe.Job) [][]pipe.Job {
	if !s.InSlots {
		return slices.Collect(slices.Chunk(jobs, maxTogether))
	}
	var all [][]pipe.Job
	at := make(map[int]int, len(jobs)) // where in all the group of a slot is that has room
	for _, j := range jobs {
		slot := layout.Slot(operationOf(j).texts[0])
		i, there := at[slot]
		if !there || len(all[i]) == maxTogether {
			i, all = len(all), append(all, nil)
			at[slot] = i
		}
		all[i] = append(all[i], j)
	}
	return all
}

// together is one call for a group.
func (s *Store) together(group []pipe.Job) pipe.Packet {
	c := script.Call{Script: s.Scripts.Many, Words: make([]any, 0, 5*len(group)+2)}
	ops := make([]byte, len(group))
	for i, j := range group {
		op := operationOf(j)
		ops[i] = op.letter
		c.Words = pointTo(c.Words, op.texts[:op.keys])
		c.Cost += j.Cost
		c.Grants = c.Grants || op.grants()
	}
	c.Keys = len(c.Words)
	c.Words = append(c.Words, ops, s.FenceMillis)
	for _, j := range group {
		op := operationOf(j)
		c.Words = pointTo(c.Words, op.texts[op.keys:op.n])
	}
	begun, cmd := time.Now(), c.Command(context.Background())
	return pipe.Packet{Jobs: group, Cmd: cmd, Grants: c.Grants, Done: func(err error) {
		c.Observe(begun)
		for i, o := range s.outcomes(group, cmd, err) {
			operationOf(group[i]).answered(group[i].Queued, o)
		}
	}}
}

// outcomes reads what script/many.lua answered. If any of it is not what that script answers, nothing in it is
// believed.
func (s *Store) outcomes(group []pipe.Job, cmd *redis.Cmd, err error) []outcome {
	all := make([]outcome, len(group))
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
			err = fmt.Errorf("%w: element %d of %d", script.ErrBadAnswer, i, len(group)) // the names of others are not told
		}
	}
	if err != nil {
		for i, j := range group {
			all[i] = operationOf(j).failed(s.Failed(err))
		}
	}
	return all
}
