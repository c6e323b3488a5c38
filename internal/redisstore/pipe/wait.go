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

// window is how many batches may be under way. Behind a batch that waits for replicas another one would only wait, too,
// and its time would pass.
func (p *Pipeline) window() int {
	if p.Replicas > 0 {
		return 1
	}
	return Window
}

// waitFor is the question that ends a batch in which something may be taken: how many replicas have all that was
// written on this connection. It takes a third of the time of an operation at most: then its answer comes in time, and
// that of the next one. It is nil if nothing has to be asked.
func (p *Pipeline) waitFor(packets []Packet) *redis.Cmd {
	if p.Replicas == 0 || !slices.ContainsFunc(packets, func(pk Packet) bool { return pk.Grants }) {
		return nil
	}
	return redis.NewCmd(context.Background(), "wait", p.Replicas, p.Timeout.Milliseconds()/3)
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
