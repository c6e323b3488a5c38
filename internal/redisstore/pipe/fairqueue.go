package pipe

import (
	"container/heap"
	"math"
	"time"
)

const (
	// meanCost is what the commands of a full batch cost Redis, in singles of about 5 µs, unless one alone costs more.
	meanCost = 2
	// turnCost is what a tenant has of a batch before others have their turn.
	turnCost = 32
	// lightLoad is what the jobs of a light tenant, waiting and under way, cost at most.
	lightLoad = 64
	// pacedCost is what the jobs of heavy tenants cost in a batch beside light ones, unless one alone costs more.
	pacedCost = 8
	// timeOfSingle is about what a single takes Redis.
	timeOfSingle = 5 * time.Microsecond
	// restFactor is by how much longer heavy tenants rest than their costly batch takes, mostRest for how long at most.
	restFactor = 2
	mostRest   = 100 * time.Millisecond
	// linger is for how long a tenant still counts as heavy, and a light one still counts as there.
	linger = 2 * time.Millisecond
	// forgetAfter is for how long a tenant that asks for nothing is remembered.
	forgetAfter = time.Second
)

// fairQueue has the jobs that wait, those of each tenant in their order. The package comment has the rule of turns.
type fairQueue struct {
	costFactor   func(tenant string) int // the cost of a tenant's jobs is multiplied by it
	tenants      map[string]*tenant
	light, heavy class
	n            int // jobs

	lightAt    time.Time     // when jobs of light tenants were last taken or answered
	lightUnder int           // batches under way that have jobs of light ones
	heavyUnder int           // batches under way that have jobs of heavy ones
	restUntil  time.Time     // until then heavy ones are not served beside light ones
	trip       time.Duration // about how long a batch is under way at least
	forgotten  time.Time     // when it last forgot tenants
}

// tenant is one of those who share a pipeline.
type tenant struct {
	name       string
	costFactor int
	jobs       queue[Job]
	load       int       // what its jobs cost that wait or are under way
	heavyAt    time.Time // when its load was last more than a light one's
	asked      time.Time
	taken      int64  // jobs
	class      *class // in which it has its turns
	had        int64  // what it has had there, at least what others had had before it came
	place      int    // in class.waiting, while it has jobs that wait
}

// batch is what is sent at once.
type batch struct {
	jobs  []Job
	most  int // jobs
	cost  int
	light bool // it has jobs of light tenants
	heavy int  // the price of those of heavy ones
	sent  time.Time
	// scripts that Redis has forgotten, by their SHA-1: they go with it
	missing []string
}

func (q *fairQueue) tenant(name string, now time.Time) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name, costFactor: 1}
		if q.costFactor != nil {
			t.costFactor = q.costFactor(name)
		}
		q.tenants[name] = t
	}
	t.asked = now
	return t
}

func (q *fairQueue) put(j Job, now time.Time) {
	t := q.tenant(j.From, now)
	j.tenant = t
	t.add(t.price(&j), now)
	t.jobs.push(j)
	q.enter(t, now)
}

// price is what a job counts for its tenant's share.
func (t *tenant) price(j *Job) int { return j.Cost * t.costFactor }

func (t *tenant) light(now time.Time) bool {
	return t.load <= lightLoad && now.Sub(t.heavyAt) >= linger
}

// add changes what its jobs cost.
func (t *tenant) add(price int, now time.Time) {
	if max(t.load, t.load+price) > lightLoad {
		t.heavyAt = now
	}
	t.load += price
}

// enter counts a job that was added to a tenant's, and puts the tenant where it belongs.
func (q *fairQueue) enter(t *tenant, now time.Time) {
	q.n++
	waits := t.jobs.len() > 1
	switch {
	case waits && t.class == &q.light && !t.light(now):
		heap.Remove(t.class, t.place)
		q.heavy.join(t)
	case waits:
		heap.Fix(t.class, t.place)
	case t.light(now):
		q.light.join(t)
	default:
		q.heavy.join(t)
	}
}

// take returns the next batch, with most jobs at most. It appends them to room.
func (q *fairQueue) take(now time.Time, most int, room []Job) batch {
	q.forget(now)
	b := batch{jobs: room, most: most, sent: now}
	paced := q.lightThere(now)
	if !paced || q.heavyUnder == 0 && !now.Before(q.restUntil) {
		q.serve(&q.heavy, &b, pacedCost)
	}
	q.serve(&q.light, &b, math.MaxInt)
	if !paced {
		q.serve(&q.heavy, &b, math.MaxInt)
	}
	q.begun(&b, now)
	return b
}

// lightThere says whether a light tenant is there. If Redis is far away it says no: then the distance limits
// everybody's speed, and not the work of Redis.
func (q *fairQueue) lightThere(now time.Time) bool {
	return len(q.tenants) > 1 && q.trip < linger &&
		(len(q.light.waiting) > 0 || q.lightUnder > 0 || now.Sub(q.lightAt) < linger)
}

// serve has the tenants of a class take turns until the batch is full, or their jobs in it cost most.
func (q *fairQueue) serve(c *class, b *batch, most int) {
	for had := 0; len(c.waiting) > 0 && had < most && !b.full(c.waiting[0].jobs.first()); {
		t := c.waiting[0]
		c.served = t.had
		n := c.turn(t, b, min(turnCost, most-had))
		had += n
		if c == &q.light {
			b.light = true
		} else {
			b.heavy += n
		}
	}
}

// turn moves jobs of a tenant to the batch until they cost most.
func (c *class) turn(t *tenant, b *batch, most int) (had int) {
	for t.jobs.len() > 0 && had < most && !b.full(t.jobs.first()) {
		j := t.jobs.pop()
		t.taken++
		j.number = t.taken
		had += t.price(&j)
		b.cost += j.Cost
		b.jobs = append(b.jobs, j)
	}
	t.had += int64(had)
	c.settle(t)
	return had
}

// full says whether the batch has no room for a job.
func (b *batch) full(j *Job) bool {
	return len(b.jobs) > 0 && (len(b.jobs) >= b.most || b.cost+j.Cost > meanCost*b.most)
}

// begun counts a batch among those under way.
func (q *fairQueue) begun(b *batch, now time.Time) {
	q.n -= len(b.jobs)
	if b.light {
		q.lightUnder++
		q.lightAt = now
	}
	if b.heavy > 0 {
		q.heavyUnder++
	}
}

// pause is for how long the waiting jobs of heavy tenants have to rest.
func (q *fairQueue) pause(now time.Time) time.Duration {
	if len(q.heavy.waiting) == 0 || q.heavyUnder > 0 {
		return 0
	}
	return q.restUntil.Sub(now)
}

// answered notes that a batch is not under way any more.
func (q *fairQueue) answered(b *batch, now time.Time) {
	if b.heavy > pacedCost && q.lightThere(now) {
		q.restUntil = now.Add(min(time.Duration(b.heavy)*timeOfSingle*restFactor, mostRest))
	}
	if b.light {
		q.lightUnder--
		q.lightAt = now
	}
	if b.heavy > 0 {
		q.heavyUnder--
	}
	q.trip = min(now.Sub(b.sent), q.trip*9/8+time.Microsecond)
	for i := range b.jobs {
		q.left(&b.jobs[i], now)
	}
}

// left notes that a job is over.
func (q *fairQueue) left(j *Job, now time.Time) {
	if t := j.tenant; t != nil { // else it is a probe
		t.add(-t.price(j), now)
	}
}

// back queues a job again that was not done, in front of the others of its tenant.
func (q *fairQueue) back(j Job, now time.Time) {
	t, price := j.tenant, j.tenant.price(&j)
	t.taken--
	t.had -= int64(price)
	t.add(price, now)
	t.jobs.back(j)
	q.enter(t, now)
}

// before takes out the jobs that were queued before at, and appends them to jobs.
func (q *fairQueue) before(at, now time.Time, jobs []Job) []Job {
	for _, t := range q.tenants {
		for t.jobs.len() > 0 && t.jobs.first().Queued.Before(at) {
			j := t.jobs.pop()
			q.n--
			q.left(&j, now)
			jobs = append(jobs, j)
			t.class.settle(t)
		}
	}
	return jobs
}

// forget forgets tenants that have not asked for a while. It looks at them once in forgetAfter.
func (q *fairQueue) forget(now time.Time) {
	if now.Sub(q.forgotten) < forgetAfter {
		return
	}
	q.forgotten = now
	for name, t := range q.tenants {
		if t.load == 0 && t.jobs.len() == 0 && now.Sub(t.asked) > forgetAfter {
			delete(q.tenants, name)
		}
	}
}

// class has tenants that take turns. It is a heap of those with jobs that wait: the one that has had least is the
// first.
type class struct {
	waiting []*tenant
	served  int64 // what the tenant that was served last had had
}

// join adds a tenant that waits. It counts as having had no less than the one that is served.
func (c *class) join(t *tenant) {
	if t.class != c {
		t.class, t.had = c, c.served
	}
	t.had = max(t.had, c.served)
	heap.Push(c, t)
}

// settle moves a tenant in the heap after it was served, or removes it if it has no jobs that wait.
func (c *class) settle(t *tenant) {
	if t.jobs.len() == 0 {
		heap.Remove(c, t.place)
	} else {
		heap.Fix(c, t.place)
	}
}

// Len is one of the methods of a heap.Interface.
func (c *class) Len() int { return len(c.waiting) }

// Less is another one.
func (c *class) Less(i, j int) bool { return c.waiting[i].had < c.waiting[j].had }

// Swap is another one.
func (c *class) Swap(i, j int) {
	w := c.waiting
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

// Push is another one.
func (c *class) Push(t any) {
	t.(*tenant).place = len(c.waiting)
	c.waiting = append(c.waiting, t.(*tenant))
}

// Pop is another one.
func (c *class) Pop() any {
	last := len(c.waiting) - 1
	t := c.waiting[last]
	c.waiting[last] = nil
	c.waiting = c.waiting[:last]
	return t
}
