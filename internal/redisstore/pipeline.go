package redisstore

import (
	"cmp"
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
//
// Commands that cost Redis much have a line of their own. One sender at most is busy with them, and with no more of them than
// batchCost, so all others wait for a batch of them at most, however many there are.
type pipeline struct {
	lanes
	dialer  dialer
	wake    chan struct{} // as many values as senders shall look
	closing chan struct{}
	wg      sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	probes    line
	small     line
	large     line
	largeSent bool  // a batch of large ones is under way
	largeLast bool  // the last batch taken was one
	up        int   // connections there are
	busy      int   // batches under way
	why       error // there is none
	closed    bool
}

// lanes says how a pipeline works.
type lanes struct {
	timeout time.Duration // of a batch, and of the wait before it
	senders int
	most    int                  // commands in a batch
	weigh   bool                 // whether costs count; else all are alike
	spread  bool                 // whether what waits is shared out among the senders that are free, so that a slow one delays little
	gather  func([]job) []packet // of singles; nil if there are none
}

// job is a command, or a single, and who wants to know what became of it. done must not block.
type job struct {
	cmd    *redis.Cmd
	done   func(error)
	single *single // instead of both

	queued time.Time
	stage  *stage // nil if nobody waits who may leave
	cost   int    // for Redis, in singles
}

// fail tells an error instead of an answer.
func (j *job) fail(err error) {
	if j.single == nil {
		j.done(err)
		return
	}
	j.single.end(j.queued, j.single.failed(j.single.store.failed(err)))
}

// packet is a command as it is sent, for one job or for several. done must not block.
type packet struct {
	cmd  *redis.Cmd
	done func(error)
}

// probeCost is given as the cost of what looks whether Redis is there.
const probeCost = -1

// stage is how far the command of a caller that may leave has come.
type stage struct{ atomic.Int32 }

const (
	stageQueued = iota
	stageSent
	stageLeft
)

func newPipeline(d dialer, l lanes) *pipeline {
	p := &pipeline{lanes: l, dialer: d, wake: make(chan struct{}, l.senders), closing: make(chan struct{})}
	for range l.senders {
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

// put queues a job. What it is told it is told exactly once, by a sender; if put returns an error, never.
func (p *pipeline) put(j job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed
	case len(p.small)+len(p.large) >= maxQueued:
		return errQueueFull
	}
	if !p.weigh {
		j.cost = min(j.cost, 0)
	}
	l := p.lineOf(j)
	*l = append(*l, j)
	p.wakeLocked()
	return nil
}

func (p *pipeline) lineOf(j job) *line {
	switch {
	case j.cost == probeCost:
		return &p.probes
	case j.cost > largeCost:
		return &p.large
	}
	return &p.small
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

// do queues a command and waits for its answer. When ctx ends the command may be executed all the same, and must not be looked
// at any more; unless the error is errWaited: then it was not sent.
func (p *pipeline) do(ctx context.Context, cmd *redis.Cmd, cost int) error {
	done := make(chan error, 1)
	j := job{cmd: cmd, done: func(err error) { done <- err }, queued: time.Now(), cost: cost}
	answered, err := hear(ctx, p, j, done)
	return cmp.Or(err, answered)
}

// hear queues a job and waits until it is told what became of it.
func hear[T any](ctx context.Context, p *pipeline, j job, told <-chan T) (answered T, err error) {
	j.stage = new(stage)
	if err := p.put(j); err != nil {
		return answered, err
	}
	select {
	case answered = <-told:
		return answered, nil
	case <-ctx.Done():
		if j.stage.CompareAndSwap(stageQueued, stageLeft) {
			return answered, fmt.Errorf("%w: %w", p.waited(), context.Cause(ctx))
		}
		return answered, context.Cause(ctx)
	}
}

// batch is what is sent at once.
type batch struct {
	jobs  []job
	large bool
}

// take returns the next batch. Probes go first: how much there is to renew must not decide whether Redis is there. Of large
// and small ones that wait, none goes twice in a row before the other.
func (p *pipeline) take() batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.takeLocked()
	if len(b.jobs) > 0 {
		p.busy++
	}
	return b
}

func (p *pipeline) takeLocked() batch {
	if len(p.probes) > 0 {
		return batch{p.probes.cut(p.most), false}
	}
	p.largeLast = len(p.large) > 0 && !p.largeSent && (len(p.small) == 0 || !p.largeLast)
	if p.largeLast {
		p.largeSent = true
		return batch{p.large.cut(p.most), true}
	}
	most := p.most
	if free := p.up - p.busy; p.spread && free > 1 {
		most = min(most, (len(p.small)+free-1)/free)
	}
	return batch{p.small.cut(most), false}
}

// taken is called when a batch is not under way any more. What was not sent goes in front of its line.
func (p *pipeline) taken(b batch, notSent []job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if len(notSent) == 0 && !b.large {
		return
	}
	if b.large {
		p.largeSent = false
	}
	if len(notSent) > 0 {
		l := p.lineOf(notSent[0])
		*l = append(slices.Clip(notSent), *l...)
	}
	p.wakeLocked()
}

// fail tells an error to the jobs that were queued before a time.
func (p *pipeline) fail(before time.Time, err error) {
	p.mu.Lock()
	jobs := slices.Concat(p.probes.before(before), p.small.before(before), p.large.before(before))
	p.mu.Unlock()
	for _, j := range jobs {
		j.fail(err)
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

// exec sends a batch and tells the outcomes. It says whether the connection can be used any longer.
func (p *pipeline) exec(client *redis.Client, b batch) (usable bool) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.timeout, errOpTimeout)
	defer cancel()
	sent := p.begin(b.jobs)
	packets := p.pack(sent)
	pipe := client.Pipeline()
	for _, pk := range packets {
		_ = pipe.Process(ctx, pk.cmd)
	}
	_, failure := pipe.Exec(ctx)
	if errors.Is(failure, errNotConnected) { // the connection was lost before, so nothing was sent
		for _, j := range sent {
			if j.cmd != nil {
				j.cmd.SetErr(nil)
			}
			if j.stage != nil {
				j.stage.Store(stageQueued)
			}
		}
		p.taken(b, sent)
		return false
	}
	p.taken(b, nil)
	return tell(packets, failure)
}

// begin takes out what is not sent: those whose callers left, and those that have waited too long. Of the latter it is then
// known that nothing was done, which is worth more to the caller than a late success.
func (p *pipeline) begin(jobs []job) (sent []job) {
	oldest := time.Now().Add(-p.timeout)
	sent = jobs[:0:0]
	for _, j := range jobs {
		if j.queued.Before(oldest) || j.stage != nil && !j.stage.CompareAndSwap(stageQueued, stageSent) {
			j.fail(errWaited)
			continue
		}
		sent = append(sent, j)
	}
	return sent
}

// pack makes packets of jobs. Singles go first, and together.
func (p *pipeline) pack(jobs []job) []packet {
	singles := make([]job, 0, len(jobs))
	var others []packet
	for _, j := range jobs {
		if j.single != nil {
			singles = append(singles, j)
		} else {
			others = append(others, packet{j.cmd, j.done})
		}
	}
	if len(singles) == 0 {
		return others
	}
	return append(p.gather(singles), others...)
}

// tell says what became of the packets of a batch, and returns whether all were answered.
func tell(sent []packet, failure error) (all bool) {
	all = true
	for _, pk := range sent {
		err := pk.cmd.Err()
		if err == nil && pk.cmd.Val() == nil { // no answer and no error
			err = failure
		}
		if err != nil && !errors.As(err, new(redis.Error)) {
			all = false
		}
		pk.done(err)
	}
	return all
}
