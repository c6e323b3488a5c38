package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// senders is how many batches may be under way. While one is in Redis the answers of the other are told.
	senders = 2
	// maxBatch is how many commands a batch has at most. Larger ones save little more, and have Redis wait for the whole
	// batch to be written and lockd for all of its answers.
	maxBatch = 64
)

var (
	errQueueFull = errors.New("too many operations wait for Redis")
	errWaited    = errors.New("the operation waited too long for Redis and was not sent")
	errClosed    = errors.New("the store is closed")
)

// pipeline carries the commands of all callers to Redis in shared batches. What comes while a batch is under way goes
// into the next one: the busier, the fuller the batches.
//
// A command costs no goroutine, no channel and no timer. That is why it is not go-redis's AutoPipeline, whose callers
// each sleep in a goroutine of their own; see docs/decisions.
type pipeline struct {
	client  *redis.Client
	timeout time.Duration // of a batch, and of the wait before it
	wake    chan struct{} // as many values as senders shall look
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	queue  []job
	closed bool
}

// job is a command and who wants to know what became of it. done must not block.
type job struct {
	cmd    *redis.Cmd
	queued time.Time
	done   func(error)
}

func newPipeline(client *redis.Client, timeout time.Duration) *pipeline {
	p := &pipeline{client: client, timeout: timeout, wake: make(chan struct{}, senders)}
	for range senders {
		p.wg.Go(p.send)
	}
	return p
}

// close refuses new commands and waits until all others are answered.
func (p *pipeline) close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		close(p.wake)
	}
	p.wg.Wait()
}

// submit queues a command. done is called exactly once, by a sender; or before submit returns an error, never.
func (p *pipeline) submit(cmd *redis.Cmd, done func(error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed
	case len(p.queue) >= maxQueued:
		return errQueueFull
	}
	p.queue = append(p.queue, job{cmd, time.Now(), done})
	select {
	case p.wake <- struct{}{}:
	default: // all senders will look
	}
	return nil
}

// do is submit that waits. When ctx ends the command may be executed all the same, and must not be looked at any more.
func (p *pipeline) do(ctx context.Context, cmd *redis.Cmd) error {
	done := make(chan error, 1)
	if err := p.submit(cmd, func(err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pipeline) send() {
	for range p.wake {
		for {
			jobs := p.take()
			if len(jobs) == 0 {
				break
			}
			p.exec(jobs)
		}
	}
	for jobs := p.take(); len(jobs) > 0; jobs = p.take() { // what was queued before close
		p.exec(jobs)
	}
}

// take returns the next batch.
func (p *pipeline) take() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), maxBatch)
	jobs := p.queue[:n:n]
	if n == len(p.queue) {
		p.queue = nil
	} else {
		p.queue = p.queue[n:]
	}
	return jobs
}

// exec sends a batch and tells the outcomes. What has waited too long is not sent: then surely nothing was done,
// which is worth more to the caller than a late success.
func (p *pipeline) exec(jobs []job) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.timeout, errOpTimeout)
	defer cancel()
	pipe := p.client.Pipeline()
	oldest := time.Now().Add(-p.timeout)
	for _, j := range jobs {
		if j.queued.Before(oldest) {
			j.cmd.SetErr(errWaited)
			continue
		}
		_ = pipe.Process(ctx, j.cmd)
	}
	_, failure := pipe.Exec(ctx)
	for _, j := range jobs {
		err := j.cmd.Err()
		if err == nil && j.cmd.Val() == nil { // no answer and no error: there was no connection to begin with
			err = failure
		}
		j.done(err)
	}
}
