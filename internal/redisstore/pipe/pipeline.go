package pipe

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
	// Senders is how many batches may be under way. While one is in Redis the answers of the other are told.
	Senders = 2
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
// into the next one: the busier, the fuller the batches. Each sender keeps a connection of its own, made ahead.
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

	mu     sync.Mutex // guards the fields below
	looked time.Time  // for what has waited too long
	probes []Job
	queue  fairQueue
	up     int   // connections there are
	busy   int   // batches under way
	why    error // there is none
	closed bool
}

// Lanes says how a pipeline works.
type Lanes struct {
	Timeout time.Duration // of a batch, and of the wait before it
	Senders int
	Most    int              // commands in a batch
	Fair    bool             // whether costs count and tenants share; else all jobs are alike, and of one tenant
	Weight  func(string) int // by how much more a tenant's jobs cost beside those of others; nil if they do not
	// whether ASKING stands before each command: what it is for is on its way to this node of a cluster
	Asking bool
	// whether what waits is shared out among the senders that are free, so that a slow one delays little
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
}

// fail tells an error instead of an answer.
func (j *Job) fail(err error) {
	if j.Single == nil {
		j.Done(err)
		return
	}
	j.Single.Fail(j.Queued, err)
}

// Packet is a command as it is sent, for one job or for several. Done must not block.
type Packet struct {
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

// New makes a Pipeline, whose senders begin to connect at once.
func New(d Dialer, l Lanes) *Pipeline {
	p := newPipeline(l)
	p.dialer = d
	for range l.Senders {
		p.wg.Go(func() { (&sender{p: p}).run() })
	}
	return p
}

func newPipeline(l Lanes) *Pipeline {
	return &Pipeline{
		Lanes: l, queue: fairQueue{weight: l.Weight, tenants: make(map[string]*tenant)},
		wake: make(chan struct{}, l.Senders), closing: make(chan struct{}),
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

// Put queues a job. What it is told it is told exactly once, by a sender; if Put returns an error, never.
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
	return p.Senders - p.up
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
		if j.stage.CompareAndSwap(stageQueued, stageLeft) {
			return answered, fmt.Errorf("%w: %w", p.waited(), context.Cause(ctx))
		}
		return answered, context.Cause(ctx)
	}
}

// take returns the next batch. Probes go first: how much there is to renew must not decide whether Redis is there.
func (p *Pipeline) take() batch {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.looked) >= p.Timeout/lookParts {
		p.looked = now
		p.mu.Unlock()
		p.failWaited()
		p.mu.Lock()
	}
	b := p.takeLocked(now)
	p.countLocked()
	if len(b.jobs) > 0 {
		p.busy++
	}
	return b
}

func (p *Pipeline) takeLocked(now time.Time) batch {
	if n := min(len(p.probes), p.Most); n > 0 {
		b := batch{jobs: p.probes[:n:n], sent: now}
		if p.probes = p.probes[n:]; len(p.probes) == 0 {
			p.probes = nil
		}
		return b
	}
	most := p.Most
	if free := p.up - p.busy; p.Spread && free > 1 {
		most = min(most, (p.queue.n+free-1)/free)
	}
	return p.queue.take(now, most)
}

// taken is called when a batch is not under way any more. What was not sent goes in front of the others.
func (p *Pipeline) taken(b *batch, notSent bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if !notSent {
		p.queue.answered(b, now, p.up > 1)
	} else if len(b.jobs) > 0 && b.jobs[0].Cost == ProbeCost {
		p.probes = slices.Concat(b.jobs, p.probes)
	} else {
		p.queue.back(b, now)
		p.countLocked()
	}
	if notSent || b.heavy > 0 {
		p.wakeLocked()
	}
}

// rest lets pass the time that is due after a batch.
func (p *Pipeline) rest(b *batch) {
	if b.rest == 0 {
		return
	}
	time.Sleep(b.rest)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.heavyUnder--
	p.wakeLocked()
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

// until is a ctx with a deadline, which connections keep, and without the timer of one.
type until struct {
	context.Context
	end time.Time
}

// Deadline implements context.Context.
func (u until) Deadline() (time.Time, bool) { return u.end, true }

// exec sends a batch on a connection and tells the outcomes. It says whether the connection can be used any longer.
func (p *Pipeline) exec(pipe redis.Pipeliner, b *batch) (usable bool) {
	ctx := until{context.Background(), time.Now().Add(p.Timeout)}
	p.begin(b)
	packets := p.pack(b.jobs)
	for _, pk := range packets {
		if p.Asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, pk.Cmd)
	}
	wait := p.waitFor(ctx, packets)
	if wait != nil {
		_ = pipe.Process(ctx, wait)
	}
	_, failure := pipe.Exec(ctx)
	if errors.Is(failure, ErrNotConnected) { // the connection was lost before, so nothing was sent
		for _, j := range b.jobs {
			if j.Cmd != nil {
				j.Cmd.SetErr(nil)
			}
			if j.stage != nil {
				j.stage.Store(stageQueued)
			}
		}
		p.taken(b, true)
		return false
	}
	p.taken(b, false)
	return tell(packets, failure, p.tooFew(wait)) && answered(wait)
}

// begin takes out what is not sent: those whose callers left, and those that have waited too long. Of the latter it is
// then known that nothing was done, which is worth more to the caller than a late success.
func (p *Pipeline) begin(b *batch) {
	oldest := time.Now().Add(-p.Timeout)
	b.jobs = slices.DeleteFunc(b.jobs, func(j Job) bool {
		if !j.Queued.Before(oldest) && (j.stage == nil || j.stage.CompareAndSwap(stageQueued, stageSent)) {
			return false
		}
		p.mu.Lock()
		p.queue.left(&j, time.Now())
		p.mu.Unlock()
		j.fail(ErrWaited)
		return true
	})
}

// pack makes packets of jobs. Singles go first, and together.
func (p *Pipeline) pack(jobs []Job) (packets []Packet) {
	singles := 0
	for i := range jobs {
		if jobs[i].Single != nil {
			jobs[i], jobs[singles] = jobs[singles], jobs[i]
			singles++
		}
	}
	if singles > 0 {
		packets = p.Gather(jobs[:singles:singles])
	}
	for _, j := range jobs[singles:] {
		packets = append(packets, Packet{j.Cmd, j.Done, j.Grants})
	}
	return packets
}

// tell says what became of the packets of a batch, and returns whether all were answered. few is why nothing of it may
// be taken for granted.
func tell(sent []Packet, failure, few error) (all bool) {
	all = true
	for _, pk := range sent {
		err := pk.Cmd.Err()
		if err == nil && pk.Cmd.Val() == nil { // no answer and no error
			err = failure
		}
		if err != nil && !errors.As(err, new(redis.Error)) {
			all = false
		}
		if err == nil && pk.Grants {
			err = few
		}
		pk.Done(err)
	}
	return all
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
