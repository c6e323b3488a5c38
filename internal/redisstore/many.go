package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxTogether is how many singles go into one call. With 64 the call by itself costs a hundredth of what it does, and Redis is
	// busy with it for a quarter of a millisecond, or half of one if no case is the ordinary one: a tenth of what a script may.
	maxTogether = 64
	// fewTogether is from how many on they do. One alone has nothing to share.
	fewTogether = 2
)

// gather makes packets of singles that wait at the same time, in their order.
func (s *Store) gather(jobs []job) []packet {
	var packets []packet
	for _, group := range groups(jobs) {
		if len(group) >= s.fewTogether {
			packets = append(packets, s.together(group))
			continue
		}
		for _, j := range group {
			packets = append(packets, j.single.alone().packet(s.shared, func(cmd *redis.Cmd, err error) {
				j.single.end(j.queued, j.single.aloneAnswered(cmd, err))
			}))
		}
	}
	return packets
}

// groups says what may go into one call. All keys of a call must be on one server, so this is where several servers, or the slots
// of a cluster, would be told apart.
func groups(jobs []job) [][]job { return slices.Collect(slices.Chunk(jobs, maxTogether)) }

// together is one call for a group.
func (s *Store) together(group []job) packet {
	c := call{script: s.scripts.many, words: make([]any, 0, 5*len(group)+2), cost: len(group)}
	ops := make([]byte, len(group))
	for i, j := range group {
		one := j.single
		ops[i] = one.op
		c.words = append(c.words, &one.key, &one.token)
		if one.op != opAcquire {
			c.words = append(c.words, &one.channel)
		}
	}
	c.keys = len(c.words)
	c.words = append(c.words, ops, &s.fenceText)
	for _, j := range group {
		one := j.single
		c.words = append(c.words, &one.owner, &one.number)
		if one.op == opHandOver {
			c.words = append(c.words, &one.heir, &one.heirTTL)
		}
	}
	begun := time.Now()
	return c.packet(s.shared, func(cmd *redis.Cmd, err error) {
		c.observe(begun)
		for i, o := range s.outcomes(group, cmd, err) {
			group[i].single.end(group[i].queued, o)
		}
	})
}

// outcomes reads what many.lua answered. If any of it is not what that script answers, nothing in it is believed.
func (s *Store) outcomes(group []job, cmd *redis.Cmd, err error) []outcome {
	all := make([]outcome, len(group))
	var list []any
	if err == nil {
		list, err = cmd.Slice()
		if err != nil || len(list) != len(group) {
			err = fmt.Errorf("%w: %v for %d locks", errBadAnswer, cmd.Val(), len(group))
		}
	}
	for i := 0; err == nil && i < len(group); i++ {
		all[i] = group[i].single.element(list[i])
		if errors.Is(all[i].err, errBadAnswer) {
			err = fmt.Errorf("%w: element %d of %d", errBadAnswer, i, len(group)) // the names of others are not told
		}
	}
	if err != nil {
		for i, j := range group {
			all[i] = j.single.failed(s.failed(err))
		}
	}
	return all
}
