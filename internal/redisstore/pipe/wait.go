package pipe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// ErrNotReplicated: the command was executed, and too few replicas have acknowledged that.
var ErrNotReplicated = errors.New("too few replicas acknowledged it")

// waitFor is the question that ends a batch in which something may be taken: how many replicas have all that was
// written on this connection. It takes half of the time of a batch at most, so that its answer comes in time. It is nil
// if nothing has to be asked.
func (p *Pipeline) waitFor(ctx context.Context, packets []Packet) *redis.Cmd {
	if p.Replicas == 0 || !slices.ContainsFunc(packets, func(pk Packet) bool { return pk.Grants }) {
		return nil
	}
	return redis.NewCmd(ctx, "wait", p.Replicas, p.Timeout.Milliseconds()/2)
}

// tooFew is nil if enough replicas have it.
func (p *Pipeline) tooFew(wait *redis.Cmd) error {
	if wait == nil {
		return nil
	}
	switch n, err := wait.Int(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotReplicated, err)
	case n < p.Replicas:
		return fmt.Errorf("%w: %d, want %d", ErrNotReplicated, n, p.Replicas)
	}
	return nil
}

// answered says whether the server answered the question, if there was one.
func answered(wait *redis.Cmd) bool {
	return wait == nil || wait.Err() == nil || errors.As(wait.Err(), new(redis.Error))
}
