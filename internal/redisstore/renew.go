package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/redis/go-redis/v9"
)

// renewChunk is how much one script call costs at most, in exclusive holds, unless a single hold costs more: enough to make
// the round trip cheap, little enough that Redis is busy with it for about a millisecond.
const renewChunk = 100

// renewCost is what renew.lua does for a hold, in exclusive holds: it looks at each permit.
func renewCost(r lock.Renewal) int {
	switch r.Kind {
	case lock.Read, lock.Write:
		return 2
	case lock.Semaphore:
		return 2 + int(r.Permits)
	default:
		return 1
	}
}

// byCost cuts the holds with some indexes into chunks of similar cost.
func byCost(rs []lock.Renewal, indexes []int) (chunks [][]int) {
	from, cost := 0, 0
	for at, i := range indexes {
		one := renewCost(rs[i])
		if at > from && cost+one > renewChunk {
			chunks = append(chunks, indexes[from:at])
			from, cost = at, 0
		}
		cost += one
	}
	if from < len(indexes) {
		chunks = append(chunks, indexes[from:])
	}
	return chunks
}

// Renew implements lock.Store. The chunks are all under way at the same time, each within the time of one operation,
// so that a slow one delays no other. They use connections that are kept for renewals; but what only verifies, which
// clients cause as they like and no lease depends on, shares the way of all other operations.
func (s *Store) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	var renew, verify []int // indexes
	for i, r := range rs {
		switch err := begin(ctx, r.Kind); {
		case err != nil:
			done(i, renewFailed(r, err))
		case r.TTL > 0:
			renew = append(renew, i)
		default:
			verify = append(verify, i)
		}
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var wg sync.WaitGroup
	chunks := func(ask []int, via lane) {
		for _, chunk := range byCost(rs, ask) {
			wg.Go(func() { s.renewAll(ctx, via, renewals{rs, chunk}, done) })
		}
	}
	chunks(renew, s.steady.do)
	chunks(verify, s.shared.do)
	wg.Wait()
}

// Extend implements lock.Store.
func (s *Store) Extend(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	if err := begin(ctx, r.Kind); err != nil {
		return 0, renewFailed(r, err)
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	one := renewals{[]lock.Renewal{r}, []int{0}}
	answers := s.renewAll(ctx, s.shared.do, one, func(_ int, e error) { err = e })
	return leftOf(answers, err), err
}

// leftOf is how long the one hold lasts that was extended.
func leftOf(answers []int64, err error) time.Duration {
	if err != nil {
		return 0
	}
	return time.Duration(answers[0]) * time.Millisecond
}

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	if err := begin(context.Background(), r.Kind); err != nil {
		go done(0, renewFailed(r, err))
		return
	}
	one := renewals{[]lock.Renewal{r}, []int{0}}
	s.renewCall(one).start(s.shared, func(cmd *redis.Cmd, err error) {
		answers, err := s.renewAnswers(cmd, err)
		tell := func() { one.tell(answers, err, func(_ int, err error) { done(leftOf(answers, err), err) }) }
		if len(answers) == 0 || answers[0] != answerGone {
			tell()
			return
		}
		go func() { // to find out why may take a while
			ctx, cancel := s.bounded(context.Background())
			defer cancel()
			s.whyGone(ctx, one, answers)
			tell()
		}()
	})
}

func renewFailed(r lock.Renewal, err error) error {
	return fmt.Errorf("renew %q: %w", r.Name, err)
}

// renewals are some of those that are asked for, by their indexes.
type renewals struct {
	all   []lock.Renewal
	chunk []int
}

// renewAll renews some holds by one script call, and returns what that answered.
func (s *Store) renewAll(ctx context.Context, via lane, rs renewals, done func(i int, err error)) []int64 {
	answers, err := s.renewAnswers(s.renewCall(rs).run(ctx, via))
	s.whyGone(ctx, rs, answers)
	rs.tell(answers, err, done)
	return answers
}

// renewAnswers reads what renew.lua answered.
func (s *Store) renewAnswers(cmd *redis.Cmd, err error) ([]int64, error) {
	if err != nil {
		return nil, s.failed(err)
	}
	answers, err := cmd.Int64Slice()
	if err != nil {
		return nil, s.failed(fmt.Errorf("%w: %w", errBadAnswer, err))
	}
	return answers, nil
}

// tell says what became of each hold: one answer for each, or an error for all.
func (rs renewals) tell(answers []int64, err error, done func(i int, err error)) {
	if err == nil && len(answers) != len(rs.chunk) {
		err = fmt.Errorf("%w: %w: %d for %d holds", lock.ErrOutcomeUnknown, errBadAnswer, len(answers), len(rs.chunk))
	}
	for k, i := range rs.chunk {
		e := err
		if err == nil {
			e = renewalError(answers[k])
		}
		if e != nil {
			e = renewFailed(rs.all[i], e)
		}
		done(i, e)
	}
}

// renewCall is what renew.lua is called with. It sorts the chunk.
func (s *Store) renewCall(rs renewals) call {
	chunk, plain := plainFirst(rs.all, rs.chunk)
	permits := uint32(0)
	keys := make([]string, 0, 2*len(chunk))
	args := make([]any, 0, 2+3*plain+6*(len(chunk)-plain))
	args = append(args, s.fenceMillis, plain)
	for _, i := range chunk {
		r := &rs.all[i]
		n := s.prefix + r.Name
		keys = append(keys, n, tokenKey(n))
		var ttl int64
		if r.TTL > 0 {
			ttl = millis(r.TTL)
		}
		args = append(args, string(r.Owner), decimal(r.Fence), ttl)
		switch r.Kind {
		case lock.Read, lock.Write:
			args = append(args, r.Kind.String(), holdBase(n), r.Level)
		case lock.Semaphore:
			args = append(args, r.Kind.String(), permitsOut(n), r.Permits)
		default: // exclusive and fair
		}
		permits += r.Permits
	}
	c := s.scripts.renew.with(keys, args...)
	c.cost += costOfPermits(permits)
	return c
}

// plainFirst sorts exclusive and fair holds, which are renewed alike, to the front of a chunk and returns how many there
// are. Usually there are no others.
func plainFirst(rs []lock.Renewal, chunk []int) (sorted []int, plain int) {
	for at, i := range chunk {
		if k := rs[i].Kind; k == lock.Exclusive || k == lock.Fair {
			chunk[at], chunk[plain] = chunk[plain], i
			plain++
		}
	}
	return chunk, plain
}

// What renew.lua answers for a hold, and whyGone. A hold that is there has an answer of 1 or more.
const (
	answerGone     = 0
	answerDataLost = -1
	answerUnsure   = -2
)

// renewalError is what one answer means.
func renewalError(answer int64) error {
	if answer > answerGone {
		return nil
	}
	switch answer {
	case answerGone:
		return &lock.GoneError{Reason: lock.LostForced}
	case answerUnsure:
		return lock.ErrUnavailable
	default:
		return &lock.GoneError{Reason: lock.LostData}
	}
}
