package pipe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// ErrNotReplicated: the command was executed, but too few replicas have acknowledged it.
var ErrNotReplicated = errors.New("too few replicas acknowledged it")

// window is how many batches may be under way. A batch behind one that waits for replicas would only wait, too, while
// its time passes.
func (p *Pipeline) window() int {
	if p.Replicas > 0 {
		return 1
	}
	return Window
}

// waitFor is the WAIT that ends a batch in which something may be taken. It asks how many replicas have all that was
// written on this connection. It takes a third of the time of an operation at most, so that its answer comes in time,
// and that of the next batch. It is nil if nothing has to be asked.
func (p *Pipeline) waitFor(packets []Packet) *redis.Cmd {
	if p.Replicas == 0 || !slices.ContainsFunc(packets, func(pk Packet) bool { return pk.Grants }) {
		return nil
	}
	return redis.NewCmd(context.Background(), "wait", p.Replicas, p.Timeout.Milliseconds()/3)
}

// tooFew is the error if WAIT tells of too few replicas.
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
