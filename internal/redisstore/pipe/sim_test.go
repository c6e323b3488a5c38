package pipe

import (
	"container/heap"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sim runs what the pipeline decides in virtual time: its senders, clients that ask again when they are answered, and a
// Redis that does one batch after the other.
type sim struct {
	p       *Pipeline
	now     time.Time
	events  events
	free    time.Time // Redis has nothing to do from then on
	idle    []bool    // senders
	clients map[string]*client
	stall   func() time.Duration // for how long Redis does something else before a batch; nil if it never does
	wrong   func() int           // by how much more than it did a measurement says, in singles; nil if none does
	longest time.Duration        // that a job waited
}

// wayToRedis is how long a message is under way.
const wayToRedis = 50 * time.Microsecond

// client has so many jobs under way, all the time.
type client struct {
	name   string
	asks   int           // what it asks costs, it says
	costs  int           // and what it costs
	rest   time.Duration // until it asks again
	apart  bool          // it asks again for each job at a time of its own, until then
	done   int
	worked time.Duration // by Redis
}

// event is something that happens at a time.
type event struct {
	at   time.Time
	turn int // of those at the same time
	do   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(a, b int) bool {
	if c := e[a].at.Compare(e[b].at); c != 0 {
		return c < 0
	}
	return e[a].turn < e[b].turn
}
func (e events) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simJob is the Single of a job: whose it is.
type simJob struct{ *client }

func (simJob) Fail(time.Time, error) {}

func newSim() *sim {
	s := &sim{p: idle(), now: time.Unix(1e9, 0), clients: map[string]*client{}}
	s.p.pace.trip = 2 * wayToRedis
	s.free = s.now
	for range Senders {
		s.idle = append(s.idle, true)
	}
	return s
}

func (s *sim) after(d time.Duration, do func()) {
	heap.Push(&s.events, event{s.now.Add(d), len(s.events), do})
}

// add adds a client that has n jobs under way.
func (s *sim) add(t *testing.T, name string, n, asks, costs int) *client {
	c := &client{name: name, asks: asks, costs: costs, rest: 200 * time.Microsecond}
	s.clients[name] = c
	s.after(0, func() { s.put(t, c, n) })
	return c
}

func (s *sim) put(t *testing.T, c *client, n int) {
	for range n {
		if err := s.p.Put(Job{Queued: s.now, Cost: c.asks, From: c.name, Single: simJob{c}}); err != nil {
			t.Error(err)
		}
	}
	s.wake(t)
}

// wake has a sender look that has nothing to do.
func (s *sim) wake(t *testing.T) {
	if i := slices.Index(s.idle, true); i >= 0 {
		s.idle[i] = false
		s.after(0, func() { s.send(t, i) })
	}
}

func (s *sim) send(t *testing.T, sender int) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	b := s.p.takeLocked(s.now)
	if len(b.jobs) == 0 {
		waits, rests := s.p.small.n+s.p.large.n > 0, s.p.pace.timer != nil
		if rests {
			s.p.pace.timer.Stop()
			s.p.pace.timer = nil
			s.after(s.p.pace.rest(s.now), func() {
				for range Senders {
					s.wake(t)
				}
			})
		}
		if waits && !rests && s.p.busy == 0 {
			t.Error("jobs wait, and nobody will look for them")
		}
		s.idle[sender] = true
		return
	}
	s.p.busy++
	s.p.pace.sent(&b, s.now)
	s.free = latest(s.free, s.now.Add(wayToRedis))
	if s.stall != nil {
		s.free = s.free.Add(s.stall())
	}
	for _, j := range b.jobs {
		s.longest = max(s.longest, s.now.Sub(j.Queued))
	}
	for i := range b.sections {
		for _, j := range b.part(i) {
			s.work(j.Single.(simJob).client)
		}
	}
	if len(b.sections) == 0 {
		for _, j := range b.jobs {
			s.work(j.Single.(simJob).client)
		}
	}
	s.after(s.free.Add(wayToRedis).Sub(s.now), func() { s.answer(t, sender, &b) })
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// work has Redis do a job.
func (s *sim) work(c *client) {
	d := time.Duration(c.costs) * timeOfSingle
	c.worked += d
	s.free = s.free.Add(d)
}

// answer has clients ask again whose jobs are done.
func (s *sim) answer(t *testing.T, sender int, b *batch) {
	s.p.mu.Lock()
	if b.measured {
		for i := range b.sections {
			sum := callCost
			for _, j := range b.part(i) {
				sum += j.Single.(simJob).costs
			}
			if s.wrong != nil {
				sum += s.wrong()
			}
			s.p.billLocked(b, i, sum)
		}
		b.trip = 2 * wayToRedis
	}
	s.p.mu.Unlock()
	again := map[string]int{}
	for _, j := range b.jobs {
		again[j.From]++
	}
	s.p.takenAt(b, false, s.now)
	for _, name := range slices.Sorted(maps.Keys(again)) {
		c := s.clients[name]
		c.done += again[name]
		if !c.apart {
			s.after(c.rest, func() { s.put(t, c, again[name]) })
			continue
		}
		for range again[name] {
			s.after(rand.N(c.rest), func() { s.put(t, c, 1) }) //nolint:gosec // no secret
		}
	}
	s.wake(t)
	s.send(t, sender)
}

// run goes on for a time, of which only the second half counts.
func (s *sim) run(d time.Duration) {
	for _, end := range []time.Time{s.now.Add(d / 2), s.now.Add(d)} {
		for _, c := range s.clients {
			c.done, c.worked = 0, 0
		}
		s.longest = 0
		for len(s.events) > 0 && !s.events[0].at.After(end) {
			e := heap.Pop(&s.events).(event)
			s.now = e.at
			e.do()
		}
		s.now = end
	}
}

// Who has few requests keeps its speed beside jobs of any length.
func TestANeighbourKeepsItsSpeedBesideLongJobs(t *testing.T) {
	speed := func(cost, jobs int) int {
		s := newSim()
		little := s.add(t, "little", 8, 1, 1)
		if cost > 0 {
			s.add(t, "long", jobs, cost, cost)
		}
		s.run(2 * time.Second)
		return little.done
	}
	alone := speed(0, 0)
	for _, cost := range []int{1, 17, 100, 300, 400, 450, 500, 600, 1000} {
		if part := float64(speed(cost, 1+2000/cost)) / float64(alone); part < 0.5 {
			t.Errorf("beside jobs of %v it keeps %.2f of its speed", time.Duration(cost)*timeOfSingle, part)
		}
	}
}

// Busy tenants have equal parts of Redis, whatever each asks for: one with large jobs has no more than those with small
// ones.
func TestBusyTenantsOfBothLinesShareEqually(t *testing.T) {
	for _, cost := range []int{17, 120, 400} {
		for _, others := range []int{1, 4, 10} {
			s := newSim()
			large := s.add(t, "large", 200, cost*4/5+1, cost)
			for i := range others {
				s.add(t, fmt.Sprint("small", i), 300, 1, 1)
			}
			s.run(4 * time.Second)
			for i := range others {
				if small := s.clients[fmt.Sprint("small", i)]; large.worked > small.worked*3/2 || small.worked > large.worked*3/2 {
					t.Errorf("jobs of %d beside %d others: Redis worked %v, and %v for another one", cost, others, large.worked,
						small.worked)
				}
			}
		}
	}
}

// Who has one turn waiting again and again gets no more than those with more.
func TestWhoAsksForOneTurnAtATimeHasNoMoreThanOthers(t *testing.T) {
	s := newSim()
	turn := s.add(t, "one turn", quantum, 1, 1)
	others := 10
	for i := range others {
		s.add(t, fmt.Sprint(i), 200, 1, 1)
	}
	s.run(4 * time.Second)
	if one := s.clients["0"]; turn.worked > one.worked*5/4 {
		t.Errorf("Redis worked %v for who has %d at a time, and %v for each of %d with 200", turn.worked, quantum, one.worked,
			others)
	}
}

// Whatever they ask for, nobody's jobs wait for ever, and nobody has to look for jobs that nobody sends.
func TestRandomTenantsAreAllServed(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // it should be repeatable
	for round := range 60 {
		s := newSim()
		for i := range 2 + r.IntN(12) {
			asks := 1 + r.IntN(1<<r.IntN(9))
			s.add(t, fmt.Sprint(i), 1+r.IntN(1<<r.IntN(9)), asks, 1+r.IntN(asks*4))
		}
		s.run(2 * time.Second)
		for name, c := range s.clients {
			if c.done == 0 {
				t.Errorf("seed %d, round %d: nothing was done for %s, whose jobs cost %d and are said to cost %d", seed, round,
					name, c.costs, c.asks)
			}
		}
	}
}

// Of many tenants that all have many jobs, nobody waits much longer than everybody must, also if their answers come at
// different times, Redis does something else now and then, and some measurements are wrong. And Redis is never idle.
func TestManyBusyTenantsWaitAlike(t *testing.T) {
	const tenants, each, other = 100, 64, 1500 * time.Microsecond
	s := newSim()
	s.stall = func() time.Duration {
		if rand.IntN(50) == 0 { //nolint:gosec // no secret
			return other + rand.N(20*time.Millisecond) //nolint:gosec // likewise
		}
		return other
	}
	s.wrong = func() int {
		if rand.IntN(20) == 0 { //nolint:gosec // likewise
			return rand.IntN(3000) //nolint:gosec // likewise
		}
		return rand.IntN(64) //nolint:gosec // likewise
	}
	for i := range tenants {
		c := s.add(t, fmt.Sprint(i), each, 1, 1)
		c.rest, c.apart = 20*time.Millisecond, true
	}
	const length = 6 * time.Second
	s.run(length)
	sum, least := 0, math.MaxInt
	for _, c := range s.clients {
		sum += c.done
		least = min(least, c.done)
	}
	// A batch of 64 takes 1.5 ms, 0.3 ms for its jobs, and a fiftieth of 10 ms.
	if full := int(length / 2 * MaxBatch / (other + MaxBatch*timeOfSingle + 10*time.Millisecond/50)); sum < full*4/5 {
		t.Errorf("%d jobs were done, want nearly %d", sum, full)
	}
	if alike := length / 2 * tenants * each / time.Duration(sum); s.longest > 4*alike {
		t.Errorf("one waited for %v, and all would if each waited for %v", s.longest, alike)
	}
	if mean := sum / tenants; least < mean/2 {
		t.Errorf("one got %d, want about %d", least, mean)
	}
}
