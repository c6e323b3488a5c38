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

// Caller calls the scripts for names with one prefix, over the pipeline that all operations share.
type Caller struct {
	Scripts   Scripts
	Shared    *pipe.Pipeline // set last, as it needs the scripts
	Prefix    string         // in front of each name
	OpTimeout time.Duration  // of each operation
	Metrics   *Metrics
	Demoted   func() // is called when this server is not the master any more; may be nil

	FenceMillis int64 // the TTL of fence keys
}

// Ask runs a script over the shared pipeline.
func (cl *Caller) Ask(ctx context.Context, c Call) (Answer, error) {
	return cl.Answered(c.Run(ctx, cl.Shared))
}

// Start is Ask without waiting, see Call.Start.
func (cl *Caller) Start(c Call, done func(Answer, error)) {
	c.Start(cl.Shared, func(cmd *redis.Cmd, err error) { done(cl.Answered(cmd, err)) })
}

// Answered is the answer of a command that ended with err.
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

// TooFew tells the two kinds of err apart: few if the script ran and too few replicas have what it granted, failed if
// the call itself failed.
func TooFew(err error) (few, failed error) {
	if errors.Is(err, pipe.ErrNotReplicated) {
		return fmt.Errorf("%w: %w", lock.ErrNotReplicated, err), nil
	}
	return nil, err
}

// Failed wraps an error of a call with its meaning, an error of package lock, and counts it.
func (cl *Caller) Failed(err error) error {
	m := Meaning(err)
	cl.Metrics.CountFailure(m)
	if isReadOnly(err) {
		cl.TellDemoted()
	}
	return fmt.Errorf("%w: %w", m, err)
}

// TellDemoted calls Demoted, if it is set.
func (cl *Caller) TellDemoted() {
	if cl.Demoted != nil {
		cl.Demoted()
	}
}

// Bounded gives ctx the time of one operation.
func (cl *Caller) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cl.OpTimeout, pipe.ErrOpTimeout)
}
