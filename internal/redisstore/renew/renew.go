package renew

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

// Chunk is how much one script call costs at most, in exclusive holds, unless a single hold costs more: enough to make
// the round trip cheap, little enough that Redis is busy with it for about a millisecond.
const Chunk = 100

// ByCost cuts indexes of holds into chunks that cost Chunk at most each, unless a single hold costs more.
func ByCost(rs []lock.Renewal, indexes []int) (chunks [][]int) {
	from, cost := 0, 0
	for at, i := range indexes {
		one := lock.Weight(rs[i].Kind, rs[i].Permits)
		if at > from && cost+one > Chunk {
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

// cut cuts indexes of holds into chunks of one call each. In a cluster all keys of a call must be in one slot.
func (s *Renewer) cut(rs []lock.Renewal, indexes []int) (chunks [][]int) {
	if !s.InSlots {
		return ByCost(rs, indexes)
	}
	slots := make(map[int][]int, len(indexes))
	for _, i := range indexes {
		slot := layout.Slot(s.Prefix + rs[i].Name)
		slots[slot] = append(slots[slot], i)
	}
	for _, some := range slots {
		chunks = append(chunks, ByCost(rs, some)...)
	}
	return chunks
}

// Renew implements lock.Store. The chunks are all under way at the same time, each within the time of one operation, so
// that a slow one delays no other. They use the connection for renewals. But calls that only verify share the pipeline
// of all other operations: no lease depends on them, and clients cause as many as they like.
func (s *Renewer) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	var renew, verify []int // indexes
	for i, r := range rs {
		switch err := lock.Begin(ctx, r.Kind); {
		case err != nil:
			done(i, renewFailed(r, err))
		case r.TTL > 0:
			renew = append(renew, i)
		default:
			verify = append(verify, i)
		}
	}
	var wg sync.WaitGroup
	chunks := func(ask []int, via *pipe.Pipeline) {
		for _, chunk := range s.cut(rs, ask) {
			wg.Go(func() { s.renewAll(ctx, via, renewals{rs, chunk}, done) })
		}
	}
	chunks(renew, s.Steady)
	chunks(verify, s.Shared)
	wg.Wait()
}

// StartExtend implements lock.Store.
func (s *Renewer) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	if err := lock.Begin(context.Background(), r.Kind); err != nil {
		go done(0, renewFailed(r, err))
		return
	}
	one := renewals{[]lock.Renewal{r}, []int{0}}
	tell := func(_ int, left int64, err error) { done(time.Duration(left)*time.Millisecond, err) }
	s.renewCall(one).As(r.Owner.For(r.Tenant)).Start(s.Shared, func(cmd *redis.Cmd, err error) {
		if gone := s.renewed(one, cmd, err, tell); len(gone.chunk) > 0 {
			go s.tellWhy(context.Background(), gone, tell) // which may take a while
		}
	})
}

func renewFailed(r lock.Renewal, err error) error {
	return fmt.Errorf("renew %q: %w", r.Name, err)
}

// renewals are some of the renewals of a call, by their indexes in all.
type renewals struct {
	all   []lock.Renewal
	chunk []int
}

// renewAll renews some holds by one script call. It tells the outcomes that are known before it finds out why other
// holds are gone.
func (s *Renewer) renewAll(ctx context.Context, via *pipe.Pipeline, rs renewals, done func(i int, err error)) {
	tell := func(i int, _ int64, err error) { done(i, err) }
	cmd, err := s.renewCall(rs).Run(ctx, via)
	if gone := s.renewed(rs, cmd, err, tell); len(gone.chunk) > 0 {
		s.tellWhy(ctx, gone, tell)
	}
}

// renewed tells what became of each hold: the ms that it lasts, or an error. It does not tell of holds that are gone,
// but returns them.
func (s *Renewer) renewed(
	rs renewals, cmd *redis.Cmd, err error, tell func(i int, left int64, err error),
) (gone renewals) {
	answers, err := s.renewAnswers(rs, cmd, err)
	gone.all = rs.all
	for k, i := range rs.chunk {
		switch {
		case err != nil:
			tell(i, 0, renewFailed(rs.all[i], err))
		case answers[k] > answerGone:
			tell(i, answers[k], nil)
		case answers[k] == answerGone:
			gone.chunk = append(gone.chunk, i)
		default:
			tell(i, 0, renewFailed(rs.all[i], renewalError(answers[k])))
		}
	}
	return gone
}

func (s *Renewer) tellWhy(ctx context.Context, gone renewals, tell func(i int, left int64, err error)) {
	why := make([]int64, len(gone.chunk))
	s.whyGone(ctx, gone, why)
	for k, i := range gone.chunk {
		tell(i, 0, renewFailed(gone.all[i], renewalError(why[k])))
	}
}

func (s *Renewer) renewAnswers(rs renewals, cmd *redis.Cmd, err error) ([]int64, error) {
	if err != nil {
		return nil, s.Failed(err)
	}
	if cmd.Val() == answerAll {
		answers := make([]int64, len(rs.chunk))
		for k, i := range rs.chunk {
			answers[k] = max(script.MillisOrNone(rs.all[i].TTL), 1)
		}
		return answers, nil
	}
	answers, err := cmd.Int64Slice()
	switch {
	case err != nil:
		return nil, s.Failed(fmt.Errorf("%w: %w", script.ErrBadAnswer, err))
	case len(answers) != len(rs.chunk):
		return nil, s.Failed(fmt.Errorf("%w: %d for %d holds", script.ErrBadAnswer, len(answers), len(rs.chunk)))
	}
	return answers, nil
}

// renewCall is a call of script/renew.lua. It sorts the chunk.
func (s *Renewer) renewCall(rs renewals) script.Call {
	chunk, plain := plainFirst(rs.all, rs.chunk)
	keys := make([]string, 0, 2*len(chunk))
	args := make([]any, 0, 2+6*len(chunk))
	args = append(args, s.fencesToKeep(rs), plain)
	permits := uint32(0)
	for k, i := range chunk {
		r := &rs.all[i]
		n := s.Prefix + r.Name
		keys = append(keys, n, layout.Token(n))
		args = append(args, string(r.Owner), script.Decimal(r.Fence), script.MillisOrNone(r.TTL))
		if k >= plain {
			more := layout.HoldBase(n)
			if r.Kind == lock.Semaphore {
				more = layout.PermitsOut(n)
			}
			args = append(args, r.Kind.String(), more, r.Permits)
		}
		permits += r.Permits
	}
	call := s.Scripts.Renew.With(keys, args...)
	call.Cost += script.CostOfPermits(permits)
	return call
}

// fencesPart: once in this part of the TTL of fence keys, renewals prolong the fence keys of their names.
const fencesPart = 8

// fencesToKeep is the TTL of fence keys, in ms, if it is time to prolong one of these holds' fence keys, else 0. That
// is at the first renewal of each hold in each part of the TTL.
func (s *Renewer) fencesToKeep(rs renewals) int64 {
	part := max(time.Duration(s.FenceMillis)*time.Millisecond/fencesPart, 1)
	now := time.Since(s.begun) / part
	for _, i := range rs.chunk {
		if seen := rs.all[i].Seen; seen.IsZero() || seen.Sub(s.begun)/part != now {
			return s.FenceMillis
		}
	}
	return 0
}

// plainFirst sorts exclusive and fair holds, which are renewed alike, to the front of a chunk, and returns how many
// there are.
func plainFirst(rs []lock.Renewal, chunk []int) (sorted []int, plain int) {
	for at, i := range chunk {
		if k := rs[i].Kind; k == lock.Exclusive || k == lock.Fair {
			chunk[at], chunk[plain] = chunk[plain], i
			plain++
		}
	}
	return chunk, plain
}

// answerAll is what script/renew.lua answers if all holds last as long as asked for.
const answerAll = int64(1)

// What script/renew.lua or whyGone answers for a hold. A hold that is there has an answer of 1 or more.
const (
	answerGone     = 0
	answerDataLost = -1
	answerUnsure   = -2
)

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
