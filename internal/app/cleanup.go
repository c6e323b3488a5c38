package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// cleanups undo what was built, last first.
type cleanups struct {
	steps []cleanup
}

type cleanup struct {
	name string
	// within bounds the step; the bound of the whole may be nearer.
	within time.Duration
	do     func(ctx context.Context) error
}

func (c *cleanups) add(name string, within time.Duration, do func(ctx context.Context) error) {
	c.steps = append(c.steps, cleanup{name, within, do})
}

// run takes all steps, the failed and the late ones included, and joins their errors. A second run does nothing.
func (c *cleanups) run(ctx context.Context) error {
	steps := c.steps
	c.steps = nil
	var errs []error
	for _, step := range slices.Backward(steps) {
		if err := step.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// run waits for the step no longer than it may take, even if the step ignores its ctx.
func (s cleanup) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.within, fmt.Errorf("not done within %v", s.within))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// It has a moment to notice that its time is over.
	select {
	case err := <-done:
		return err
	case <-time.After(closeTimeout / 20):
		return context.Cause(ctx)
	}
}
