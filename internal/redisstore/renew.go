package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockd-io/lockd/internal/broker"
)

// renewChunk is how many holds one script call prolongs: enough to make the round trip cheap, few enough that Redis
// is busy with it for well under a millisecond.
const renewChunk = 100

// Renew implements broker.Store. The chunks are all under way at the same time, each on a connection of the lane that
// is kept for renewals, and each within the time of one operation: neither load nor a slow chunk delays the others.
func (s *Store) Renew(ctx context.Context, rs []broker.Renewal, done func(i int, err error)) {
	ask := make([]int, 0, len(rs)) // the indexes of those that are asked for
	for i, r := range rs {
		if err := begin(ctx, r.Kind); err != nil {
			done(i, fmt.Errorf("renew %q: %w", r.Name, err))
			continue
		}
		ask = append(ask, i)
	}
	if len(ask) == 0 {
		return
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for len(ask) > renewChunk {
		chunk := ask[:renewChunk]
		ask = ask[renewChunk:]
		wg.Go(func() { s.renewAll(ctx, rs, chunk, done) })
	}
	s.renewAll(ctx, rs, ask, done)
	wg.Wait()
}

// renewAll renews those holds whose indexes are in chunk, by one script call.
func (s *Store) renewAll(ctx context.Context, rs []broker.Renewal, chunk []int, done func(i int, err error)) {
	chunk, plain := plainFirst(rs, chunk)
	keys := make([]string, 0, 2*len(chunk))
	args := make([]any, 0, 2+3*plain+6*(len(chunk)-plain))
	args = append(args, s.fenceMillis, plain)
	for _, i := range chunk {
		r := &rs[i]
		n := s.prefix + r.Name
		keys = append(keys, n, tokenKey(n))
		var ttl int64
		if r.TTL > 0 {
			ttl = millis(r.TTL)
		}
		args = append(args, string(r.Owner), decimal(r.Fence), ttl)
		switch r.Kind {
		case broker.Read, broker.Write:
			args = append(args, r.Kind.String(), holdBase(n), 0)
		case broker.Semaphore:
			args = append(args, r.Kind.String(), permitsOut(n), r.Permits)
		default: // exclusive and fair
		}
	}
	answers, err := s.askRenewal(ctx, keys, args)
	if err == nil && len(answers) != len(chunk) {
		err = fmt.Errorf("%w: %w: %d for %d holds", broker.ErrOutcomeUnknown, errBadAnswer, len(answers), len(chunk))
	}
	for k, i := range chunk {
		e := err
		if err == nil {
			e = renewalError(answers[k])
		}
		if e != nil {
			e = fmt.Errorf("renew %q: %w", rs[i].Name, e)
		}
		done(i, e)
	}
}

// plainFirst sorts exclusive and fair holds, which are renewed alike, to the front of a chunk and returns how many there
// are. Usually there are no others.
func plainFirst(rs []broker.Renewal, chunk []int) (sorted []int, plain int) {
	for at, i := range chunk {
		if k := rs[i].Kind; k == broker.Exclusive || k == broker.Fair {
			chunk[at], chunk[plain] = chunk[plain], i
			plain++
		}
	}
	return chunk, plain
}

// askRenewal runs renew.lua and returns its answers.
func (s *Store) askRenewal(ctx context.Context, keys []string, args []any) ([]int64, error) {
	cmd, err := s.scripts.renew.run(ctx, s.direct, keys, args...)
	if err != nil {
		return nil, s.failed(err)
	}
	answers, err := cmd.Int64Slice()
	if err != nil {
		return nil, s.failed(fmt.Errorf("%w: %w", errBadAnswer, err))
	}
	return answers, nil
}

// renewalError is what one answer of renew.lua means.
func renewalError(answer int64) error {
	switch answer {
	case 1:
		return nil
	case 0:
		return &broker.GoneError{Reason: broker.LostForced}
	default:
		return &broker.GoneError{Reason: broker.LostData}
	}
}
