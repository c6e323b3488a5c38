package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// Caller calls the scripts for the names of one lockd, over the pipeline that all operations share.
type Caller struct {
	Scripts   Scripts
	Shared    *pipe.Pipeline // set last, as it needs the scripts
	Prefix    string         // in front of each name
	OpTimeout time.Duration  // of each operation
	Metrics   *Metrics
	Demoted   func() // is told that this server is not the master any more; may be nil

	FenceMillis int64 // the TTL of fence keys
}

// Ask runs a script over the shared pipeline.
func (cl *Caller) Ask(ctx context.Context, c Call) (Answer, error) {
	return cl.Answered(c.Run(ctx, cl.Shared))
}

// Start is Ask without waiting.
func (cl *Caller) Start(c Call, done func(Answer, error)) {
	c.Start(cl.Shared, func(cmd *redis.Cmd, err error) { done(cl.Answered(cmd, err)) })
}

// Answered reads what came back.
func (cl *Caller) Answered(cmd *redis.Cmd, err error) (Answer, error) {
	few, err := TooFew(err)
	if err != nil {
		return Answer{}, cl.Failed(err)
	}
	list, err := cmd.Slice()
	if err != nil {
		return Answer{}, cl.Failed(fmt.Errorf("%w: %w", ErrBadAnswer, err))
	}
	return Answer{List: list, Few: few}, nil
}

// TooFew is why what was granted is not to be told, if it was granted and too few replicas have it, and else the error
// of the call.
func TooFew(err error) (few, failed error) {
	if errors.Is(err, pipe.ErrNotReplicated) {
		return fmt.Errorf("%w: %w", lock.ErrNotReplicated, err), nil
	}
	return nil, err
}

// Failed wraps an error of go-redis with its meaning, and counts it.
func (cl *Caller) Failed(err error) error {
	m := Meaning(err)
	cl.Metrics.CountFailure(m)
	if isReadOnly(err) {
		cl.TellDemoted()
	}
	return fmt.Errorf("%w: %w", m, err)
}

// TellDemoted tells that this server is not the master any more.
func (cl *Caller) TellDemoted() {
	if cl.Demoted != nil {
		cl.Demoted()
	}
}

// Bounded gives ctx the time of one operation.
func (cl *Caller) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cl.OpTimeout, pipe.ErrOpTimeout)
}
