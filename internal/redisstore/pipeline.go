package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// senders is how many batches may be under way. While one is in Redis the answers of the other are told.
	senders = 2
	// maxBatch is how many commands a batch has at most. Larger ones save little more, and have Redis wait for the whole
	// batch to be written and lockd for all of its answers.
	maxBatch = 64
	// maxSteady is the same for renewals. With one command in a batch, a Redis that answers late would take a few commands in a
	// second, however few leases each of them renews. Redis reads about one full command at a time, so others get their turn.
	maxSteady = 16
	// firstRedial and lastRedial bound the pause between attempts to connect.
	firstRedial = 20 * time.Millisecond
	lastRedial  = 500 * time.Millisecond
)

var (
	errQueueFull = errors.New("too many operations wait for Redis")
	errWaited    = errors.New("the operation waited too long for Redis and was not sent")
	errClosed    = errors.New("the store is closed")
)

// pipeline carries the commands of all callers to Redis in shared batches. What comes while a batch is under way goes
// into the next one: the busier, the fuller the batches. Each sender keeps a connection of its own, made ahead.
//
// A command costs no goroutine, no channel and no timer. That is why it is not go-redis's AutoPipeline, whose callers
// each sleep in a goroutine of their own; see docs/decisions.
type pipeline struct {
	dialer  dialer
	timeout time.Duration // of a batch, and of the wait before it
	most    int           // commands in a batch
	wake    chan struct{} // as many values as senders shall look
	closing chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	queue  []job
	up     int   // connections there are
	why    error // there is none
	closed bool
}

// job is a command and who wants to know what became of it. done must not block.
type job struct {
	cmd    *redis.Cmd
	queued time.Time
	done   func(error)
	stage  *stage // nil if nobody waits who may leave
}

// stage is how far the command of a caller that may leave has come.
type stage struct{ atomic.Int32 }

const (
	stageQueued = iota
	stageSent
	stageLeft
)

func newPipeline(d dialer, timeout time.Duration, senders, most int) *pipeline {
	p := &pipeline{dialer: d, timeout: timeout, most: most, wake: make(chan struct{}, senders), closing: make(chan struct{})}
	for range senders {
		p.wg.Go(func() { (&sender{p: p}).run() })
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
		close(p.closing)
		close(p.wake)
	}
	p.wg.Wait()
}

// submit queues a command. done is called exactly once, by a sender; or before submit returns an error, never.
func (p *pipeline) submit(cmd *redis.Cmd, done func(error)) error {
	return p.put(job{cmd: cmd, queued: time.Now(), done: done})
}

func (p *pipeline) put(j job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed
	case len(p.queue) >= maxQueued:
		return errQueueFull
	}
	p.queue = append(p.queue, j)
	p.wakeLocked()
	return nil
}

func (p *pipeline) wakeLocked() {
	if p.closed {
		return // all look
	}
	select {
	case p.wake <- struct{}{}:
	default: // all senders will look
	}
}

// do is submit that waits. When ctx ends the command may be executed all the same, and must not be looked at any more;
// unless the error is errWaited: then it was not sent.
func (p *pipeline) do(ctx context.Context, cmd *redis.Cmd) error {
	done, at := make(chan error, 1), new(stage)
	if err := p.put(job{cmd: cmd, queued: time.Now(), done: func(err error) { done <- err }, stage: at}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if at.CompareAndSwap(stageQueued, stageLeft) {
			return fmt.Errorf("%w: %w", p.waited(), context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
}

// take returns the next batch.
func (p *pipeline) take() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), p.most)
	jobs := p.queue[:n:n]
	if n == len(p.queue) {
		p.queue = nil
	} else {
		p.queue = p.queue[n:]
	}
	return jobs
}

// putBack puts a batch that was not sent in front of the queue.
func (p *pipeline) putBack(jobs []job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(slices.Clip(jobs), p.queue...)
	p.wakeLocked()
}

// fail tells an error to the jobs that were queued before a time.
func (p *pipeline) fail(before time.Time, err error) {
	p.mu.Lock()
	n := 0
	for n < len(p.queue) && p.queue[n].queued.Before(before) {
		n++
	}
	jobs := p.queue[:n:n]
	p.queue = p.queue[n:]
	p.mu.Unlock()
	for _, j := range jobs {
		j.done(err)
	}
}

// failWaited tells those that waited too long.
func (p *pipeline) failWaited() { p.fail(time.Now().Add(-p.timeout), p.waited()) }

// waited is errWaited, and why there is no connection.
func (p *pipeline) waited() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == 0 && p.why != nil {
		return fmt.Errorf("%w: %w", errWaited, p.why)
	}
	return errWaited
}

// connected and lost count the connections.
func (p *pipeline) connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up++
	p.why = nil
}

func (p *pipeline) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up--
}

// refused takes note that a connection was not made. If there is no other, those who waited for it when the attempt began
// do not wait for the next one.
func (p *pipeline) refused(begun time.Time, err error) {
	p.mu.Lock()
	p.why = err
	up := p.up
	p.mu.Unlock()
	if up == 0 {
		p.fail(begun, err)
	}
}

// exec sends a batch and tells the outcomes. It says whether the connection can be used any longer. What has waited too
// long is not sent: then surely nothing was done, which is worth more to the caller than a late success.
func (p *pipeline) exec(client *redis.Client, jobs []job) (usable bool) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.timeout, errOpTimeout)
	defer cancel()
	pipe := client.Pipeline()
	oldest := time.Now().Add(-p.timeout)
	sent := jobs[:0:0]
	for _, j := range jobs {
		if j.queued.Before(oldest) || j.stage != nil && !j.stage.CompareAndSwap(stageQueued, stageSent) {
			j.done(errWaited)
			continue
		}
		sent = append(sent, j)
		_ = pipe.Process(ctx, j.cmd)
	}
	_, failure := pipe.Exec(ctx)
	if errors.Is(failure, errNotConnected) { // the connection was lost before, so nothing was sent
		for _, j := range sent {
			j.cmd.SetErr(nil)
			if j.stage != nil {
				j.stage.Store(stageQueued)
			}
		}
		p.putBack(sent)
		return false
	}
	return tell(sent, failure)
}

// tell says what became of the commands of a batch, and returns whether all were answered.
func tell(sent []job, failure error) (all bool) {
	all = true
	for _, j := range sent {
		err := j.cmd.Err()
		if err == nil && j.cmd.Val() == nil { // no answer and no error
			err = failure
		}
		if err != nil && !errors.As(err, new(redis.Error)) {
			all = false
		}
		j.done(err)
	}
	return all
}
