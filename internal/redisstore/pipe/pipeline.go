package pipe

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Window is how many batches may be under way. While Redis works on one, the answers of the other are told.
	Window = 2
	// MaxBatch is how many commands a batch has at most. Larger ones save little more, and have Redis wait for the
	// whole batch to be written and lockd for all of its answers.
	MaxBatch = 64
	// firstRedial and lastRedial bound the pause between attempts to connect. Jobs wait for the next one. A majority waits
	// 250 ms for its last members, and has to hear by then that one is down.
	firstRedial = 20 * time.Millisecond
	lastRedial  = 150 * time.Millisecond
	// checkParts is how often in the time of an operation the pipeline looks for operations that have waited that long.
	checkParts = 8
	// maxQueued bounds the operations that wait. More are refused as unavailable.
	maxQueued = 100_000
)

// Pipeline carries the commands of all callers to Redis in shared batches, over one connection that is made ahead.
// Commands that come while batches are under way go into the next one, so batches are fuller when more is asked for.
//
// A command costs no goroutine, no channel and no timer. That is why it is not go-redis's AutoPipeline, whose callers
// each sleep in a goroutine of their own; see docs/decisions.
type Pipeline struct {
	Config
	dialer  Dialer
	wake    chan struct{} // size 1: the writer is to look
	closing chan struct{}
	leading chan struct{} // full while a connection leads
	runners sync.WaitGroup
	waiting atomic.Int64 // jobs in the queue, without probes

	checked time.Time // when it last looked for jobs that waited too long; of the writer that leads

	mu      sync.Mutex // guards the fields below
	probes  []Job
	queue   fairQueue
	room    []Job    // the slice of an earlier batch, for the next one; may be nil
	missing []string // scripts that Redis turned out to have forgotten, by their SHA-1
	up      bool     // there is a connection
	why     error    // why there is none
	closed  bool
}

// Config says how a Pipeline works.
type Config struct {
	Timeout    time.Duration    // of a batch, and of the wait before that
	Most       int              // commands in a batch, which costs Redis twice as many singles at most
	Fair       bool             // whether tenants have shares; else all jobs are of one tenant
	CostFactor func(string) int // multiplies the price of a tenant's jobs; nil for 1
	// Asking says whether ASKING stands before each command: the slot is moving to this node of a cluster
	Asking bool
	Gather func([]Job) []Packet // of singles; nil if there are none
	// Replicas is how many replicas of Redis must have a grant before it is told. One WAIT covers a batch.
	Replicas int
	// Spares is how many more connections are made ahead. One of them takes over when the one in use is lost. Then no
	// order is kept over connections: the Dialer must not have Unended.
	Spares int
}

// Single is a request that Config.Gather can put into one command with others.
type Single interface {
	// Fail is called, instead of Packet.Done, if nothing was done. took is the time since Job.Queued. It must not block.
	Fail(took time.Duration, err error)
}

// Job is a command with a function that is told its outcome, or a Single. Done must not block.
type Job struct {
	Cmd    *redis.Cmd
	Done   func(error)
	Single Single // instead of both

	Grants bool // whether it may take something; for a Single, see Packet.Grants
	Queued time.Time
	From   string // the tenant; see Config.Fair
	Cost   int    // for Redis, in singles
	tenant *tenant
	number int64 // counts the jobs that were taken from its tenant
}

// fail tells an error instead of an answer.
func (j *Job) fail(err error) {
	if j.Single == nil {
		j.Done(err)
		return
	}
	j.Single.Fail(time.Since(j.Queued), err)
}

// Packet is a command as it is sent, for some jobs. Done must not block.
type Packet struct {
	Jobs   []Job
	Cmd    *redis.Cmd
	Done   func(error)
	Grants bool // whether it may take something
}

// probeCost marks a job as a probe.
const probeCost = -1

// New makes a Pipeline, which begins to connect at once.
func New(d Dialer, c Config) *Pipeline {
	p := newPipeline(d, c)
	for range 1 + c.Spares {
		p.runners.Go((&runner{Pipeline: p}).run)
	}
	return p
}

func newPipeline(d Dialer, c Config) *Pipeline {
	return &Pipeline{
		Config: c, dialer: d, queue: fairQueue{costFactor: c.CostFactor, tenants: make(map[string]*tenant)},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), leading: make(chan struct{}, 1),
	}
}

// Close refuses new commands and waits until all others are answered.
func (p *Pipeline) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	p.mu.Unlock()
	p.runners.Wait()
	p.fail(time.Now().Add(time.Hour), ErrClosed) // those that could not be sent
}

// Put queues a job, behind all others of its tenant. The job's outcome is told exactly once, by a goroutine of the
// pipeline; never if Put returns an error.
func (p *Pipeline) Put(j Job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case p.queue.n >= maxQueued:
		return ErrQueueFull
	}
	if j.Cost == probeCost {
		p.probes = append(p.probes, j)
	} else {
		if j.Cost = max(j.Cost, 1); !p.Fair {
			j.From = ""
		}
		p.queue.put(j, j.Queued)
		p.countLocked()
	}
	p.wakeWriter()
	return nil
}

// Waiting is how many operations wait for their turn, without probes.
func (p *Pipeline) Waiting() int { return int(p.waiting.Load()) }

// Connected says whether there is a connection in use.
func (p *Pipeline) Connected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

// Share is how many operations of a tenant wait to be sent, and how many tenants have any.
func (p *Pipeline) Share(from string) (its, tenants int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.queue.tenants[from]; t != nil {
		its = t.jobs.len()
	}
	return its, len(p.queue.light.waiting) + len(p.queue.heavy.waiting)
}

func (p *Pipeline) countLocked() { p.waiting.Store(int64(p.queue.n)) }

func (p *Pipeline) wakeWriter() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Do queues a job, which has a command, and waits for its answer. If ctx ends first, the command may be executed all
// the same, and the caller must not look at it any more.
func (p *Pipeline) Do(ctx context.Context, j Job) error {
	done := make(chan error, 1)
	j.Done, j.Queued = func(err error) { done <- err }, time.Now()
	if err := p.Put(j); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Probe is Do for a probe, which goes before all other jobs.
func (p *Pipeline) Probe(ctx context.Context, cmd *redis.Cmd) error {
	return p.Do(ctx, Job{Cmd: cmd, Cost: probeCost})
}

// fail takes out the jobs that were queued before a time, and tells them an error.
func (p *Pipeline) fail(before time.Time, err error) {
	for _, j := range p.before(before) {
		j.fail(err)
	}
}

// before takes out the jobs that were queued before a time. Those of a tenant wait in their order, so only the first
// ones are looked at.
func (p *Pipeline) before(t time.Time) (jobs []Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.probes) && p.probes[n].Queued.Before(t) {
		n++
	}
	jobs, p.probes = p.probes[:n:n], p.probes[n:]
	jobs = p.queue.before(t, time.Now(), jobs)
	p.countLocked()
	return jobs
}

func (p *Pipeline) failWaited() { p.fail(time.Now().Add(-p.Timeout), p.waited()) }

// waited is ErrWaited, and why there is no connection.
func (p *Pipeline) waited() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return fmt.Errorf("%w: %w", ErrWaited, p.why)
	}
	return ErrWaited
}

func (p *Pipeline) connected(up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.why = up, nil
}

// refused notes that a connection was not made. Jobs that waited when the attempt began do not wait for the next one.
func (p *Pipeline) refused(begun time.Time, err error) {
	p.mu.Lock()
	up := p.up
	if !up {
		p.why = err
	}
	p.mu.Unlock()
	if !up { // else it would have been a spare one
		p.fail(begun, err)
	}
}
