package pipe

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Window is how many batches may be under way on a connection. While one is in Redis the answers of the other are
	// told.
	Window = 2
	// MaxBatch is how many commands a batch has at most. Larger ones save little more, and have Redis wait for the
	// whole batch to be written and lockd for all of its answers.
	MaxBatch = 64
	// MaxSteady is the same for renewals. With one command in a batch, a Redis that answers late would take a few
	// commands in a second, however few leases each of them renews. Redis reads about one full command at a time, so
	// others get their turn.
	MaxSteady = 16
	// firstRedial and lastRedial bound the pause between attempts to connect. Jobs wait for the next one. A majority
	// waits 250 ms for its last members: it is to hear until then that one is down.
	firstRedial = 20 * time.Millisecond
	lastRedial  = 150 * time.Millisecond
	// lookParts is how often in the time of an operation it is looked for what has waited that long.
	lookParts = 8
	// maxQueued bounds the operations that wait for a place in the pipeline. More are refused as unavailable.
	maxQueued = 100_000
)

// Pipeline carries the commands of all callers to Redis in shared batches. What comes while a batch is under way goes
// into the next one: the busier, the fuller the batches. Its connections are made ahead.
//
// A command costs no goroutine, no channel and no timer. That is why it is not go-redis's AutoPipeline, whose callers
// each sleep in a goroutine of their own; see docs/decisions.
type Pipeline struct {
	Lanes
	dialer  Dialer
	wake    chan struct{} // as many values as senders shall look
	closing chan struct{}
	wg      sync.WaitGroup
	waiting atomic.Int64 // jobs in the queue, but for probes

	mu      sync.Mutex // guards the fields below
	looked  time.Time  // for what has waited too long
	probes  []Job
	queue   fairQueue
	missing []string // scripts that Redis turned out to have forgotten, by their SHA-1
	up      int      // connections there are
	busy    int      // batches under way
	why     error    // there is none
	closed  bool
}

// Lanes says how a pipeline works.
type Lanes struct {
	Timeout time.Duration    // of a batch, and of the wait before it
	Ways    int              // connections
	Window  int              // batches under way on each, at most Window
	Most    int              // commands in a batch
	Fair    bool             // whether costs count and tenants share; else all jobs are alike, and of one tenant
	Weight  func(string) int // by how much more a tenant's jobs cost beside those of others; nil if they do not
	// whether ASKING stands before each command: what it is for is on its way to this node of a cluster
	Asking bool
	// whether what waits is shared out among the connections that are free, so that a slow one delays little
	Spread bool
	Gather func([]Job) []Packet // of singles; nil if there are none
	// Replicas is how many must have a grant before it is told; 0 = none. One question covers a batch.
	Replicas int
}

// Single is what goes to Redis together with others of its kind.
type Single interface {
	// Fail tells an error instead of an answer, and when it was queued.
	Fail(queued time.Time, err error)
}

// Job is a command, or a single, and who wants to know what became of it. Done must not block.
type Job struct {
	Cmd    *redis.Cmd
	Done   func(error)
	Single Single // instead of both

	Grants bool // whether it may take something; of a Single its packet says so
	Queued time.Time
	From   string // the tenant; see Lanes.Fair
	Cost   int    // for Redis, in singles
	stage  *stage // nil if nobody waits who may leave
	tenant *tenant
	number int64 // it is the one with this number that was taken from its tenant's
}

// fail tells an error instead of an answer.
func (j *Job) fail(err error) {
	if j.Single == nil {
		j.Done(err)
		return
	}
	j.Single.Fail(j.Queued, err)
}

// Packet is a command as it is sent, for some jobs. Done must not block.
type Packet struct {
	Jobs   []Job
	Cmd    *redis.Cmd
	Done   func(error)
	Grants bool // whether it may take something
}

// ProbeCost is given as the cost of what looks whether Redis is there.
const ProbeCost = -1

// stage is how far the command of a caller that may leave has come.
type stage struct{ atomic.Int32 }

const (
	stageQueued = iota
	stageSent
	stageLeft
)

// New makes a Pipeline, which begins to connect at once.
func New(d Dialer, l Lanes) *Pipeline {
	p := newPipeline(l)
	p.dialer = d
	for range l.Ways {
		p.wg.Go(p.keepWay)
	}
	return p
}

func newPipeline(l Lanes) *Pipeline {
	return &Pipeline{
		Lanes: l, queue: fairQueue{weight: l.Weight, tenants: make(map[string]*tenant)},
		wake: make(chan struct{}, l.Ways*l.Window), closing: make(chan struct{}),
	}
}

// Close refuses new commands and waits until all others are answered.
func (p *Pipeline) Close() {
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

// Put queues a job, behind all others of its tenant. What it is told it is told exactly once, by a goroutine of the
// pipeline; if Put returns an error, never.
func (p *Pipeline) Put(j Job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case p.queue.n >= maxQueued:
		return ErrQueueFull
	}
	if j.Cost == ProbeCost {
		p.probes = append(p.probes, j)
	} else {
		if j.Cost = max(j.Cost, 1); !p.Fair {
			j.Cost, j.From = 1, ""
		}
		p.queue.put(j, j.Queued)
		p.countLocked()
	}
	p.wakeLocked()
	return nil
}

// Waiting is how many operations wait for their turn, without probes.
func (p *Pipeline) Waiting() int { return int(p.waiting.Load()) }

// Missing is how many of its connections it does not have.
func (p *Pipeline) Missing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Ways - p.up
}

// Share is how many operations of a tenant wait for their turn, and how many tenants have any that do.
func (p *Pipeline) Share(from string) (its, tenants int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.queue.tenants[from]; t != nil {
		its = t.jobs.len()
	}
	return its, len(p.queue.light.waiting) + len(p.queue.heavy.waiting)
}

// countLocked tells how many jobs wait.
func (p *Pipeline) countLocked() { p.waiting.Store(int64(p.queue.n)) }

func (p *Pipeline) wakeLocked() {
	if p.closed {
		return // all look
	}
	select {
	case p.wake <- struct{}{}:
	default: // all senders will look
	}
}

// Do queues a command and waits for its answer. When ctx ends the command may be executed all the same, and must not be
// looked at any more; unless the error is ErrWaited: then it was not sent.
func (p *Pipeline) Do(ctx context.Context, cmd *redis.Cmd, cost int) error {
	return p.do(ctx, Job{Cmd: cmd, Cost: cost})
}

// DoGrant is Do for a command that may take something.
func (p *Pipeline) DoGrant(ctx context.Context, cmd *redis.Cmd, cost int) error {
	return p.do(ctx, Job{Cmd: cmd, Cost: cost, Grants: true})
}

func (p *Pipeline) do(ctx context.Context, j Job) error {
	done := make(chan error, 1)
	j.Done, j.Queued, j.From = func(err error) { done <- err }, time.Now(), tenantIn(ctx)
	answered, err := Hear(ctx, p, j, done)
	return cmp.Or(err, answered)
}

// Hear queues a job and waits until it is told what became of it.
func Hear[T any](ctx context.Context, p *Pipeline, j Job, told <-chan T) (answered T, err error) {
	j.stage = new(stage)
	if err := p.Put(j); err != nil {
		return answered, err
	}
	select {
	case answered = <-told:
		return answered, nil
	case <-ctx.Done():
		if j.stage.Swap(stageLeft) == stageQueued {
			return answered, fmt.Errorf("%w: %w", p.waited(), context.Cause(ctx))
		}
		return answered, context.Cause(ctx)
	}
}

// fail tells an error to the jobs that were queued before a time.
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

// failWaited tells those that waited too long.
func (p *Pipeline) failWaited() { p.fail(time.Now().Add(-p.Timeout), p.waited()) }

// waited is ErrWaited, and why there is no connection.
func (p *Pipeline) waited() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up == 0 && p.why != nil {
		return fmt.Errorf("%w: %w", ErrWaited, p.why)
	}
	return ErrWaited
}

// connected and lost count the connections.
func (p *Pipeline) connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up++
	p.why = nil
}

func (p *Pipeline) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up--
}

// refused notes that a connection was not made. If there is no other, those who waited for it when the attempt
// began do not wait for the next one.
func (p *Pipeline) refused(begun time.Time, err error) {
	p.mu.Lock()
	p.why = err
	up := p.up
	p.mu.Unlock()
	if up == 0 {
		p.fail(begun, err)
	}
}

// tenantKey is where a context has the tenant of what is asked with it.
type tenantKey struct{}

// As has what is asked with a context be a tenant's.
func As(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantIn(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}
