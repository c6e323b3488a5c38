package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/redis/go-redis/v9"
)

// errBadAnswer: a script answered what it never does. Something in between changed the reply.
var errBadAnswer = errors.New("an answer that no script gives")

// answer is the list a script returned. Its first wrong element is kept in err, as ErrOutcomeUnknown.
type answer struct {
	list []any
	err  error
}

// ask runs a script over the shared pipeline.
func (s *Store) ask(ctx context.Context, c call) (answer, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.answered(c.run(ctx, s.shared.do))
}

// start is ask without waiting.
func (s *Store) start(c call, done func(answer, error)) {
	c.start(s.shared, func(cmd *redis.Cmd, err error) { done(s.answered(cmd, err)) })
}

// answered reads what came back.
func (s *Store) answered(cmd *redis.Cmd, err error) (answer, error) {
	if err != nil {
		return answer{}, s.failed(err)
	}
	list, err := cmd.Slice()
	if err != nil {
		return answer{}, s.failed(fmt.Errorf("%w: %w", errBadAnswer, err))
	}
	return answer{list: list}, nil
}

// at is an element of the list.
func (a *answer) at(i int) any {
	if i >= len(a.list) {
		return nil
	}
	return a.list[i]
}

func (a *answer) int(i int) int64 {
	v, ok := a.at(i).(int64)
	if !ok {
		a.bad(i)
	}
	return v
}

func (a *answer) text(i int) string {
	v, ok := a.at(i).(string)
	if !ok {
		a.bad(i)
	}
	return v
}

// number is a count, which is not negative.
func (a *answer) number(i int) uint32 { return uint32(min(max(a.int(i), 0), math.MaxUint32)) }

func (a *answer) fence(i int) lock.Fence {
	v := a.int(i)
	if v <= 0 {
		a.bad(i)
	}
	return lock.Fence(v) //nolint:gosec // checked above
}

func (a *answer) bad(i int) {
	if a.err == nil {
		a.err = fmt.Errorf("%w: %w: element %d of %v", lock.ErrOutcomeUnknown, errBadAnswer, i, a.list)
	}
}

// code is what the script did.
func (a *answer) code() int64 { return a.int(0) }

// refusal is the error for a code that means no.
func (a *answer) refusal() error {
	switch {
	case a.err != nil:
		return a.err
	case a.code() == answerNotHeld:
		return lock.ErrNotHeld
	case a.code() == answerStale:
		return lock.ErrStale
	}
	a.bad(0)
	return a.err
}
