package pipe

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// sim runs a fairQueue in virtual time: senders, clients that ask again when they are answered, and a Redis that does
// one batch after the other.
type sim struct {
	q       fairQueue
	now     time.Time
	events  events
	free    time.Time // Redis has nothing to do from then on
	idle    int       // senders
	way     time.Duration
	clients map[string]*client
	longest time.Duration // that a job waited
}

// client has so many jobs under way, all the time.
type client struct {
	name   string
	asks   int           // what each costs, it says
	costs  int           // and what it costs
	pause  time.Duration // until it asks again
	done   int
	worked time.Duration // by Redis
}

type event struct {
	at time.Time
	n  int // of those at the same time
	do func()
}

// events is what happens next, the earliest first.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(a, b int) bool {
	return cmp.Or(e[a].at.Compare(e[b].at), e[a].n-e[b].n) < 0
}
func (e events) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newSim(way time.Duration) *sim {
	s := &sim{
		q: fairQueue{tenants: map[string]*tenant{}}, now: time.Unix(1e9, 0), way: way, idle: Window,
		clients: map[string]*client{},
	}
	s.free = s.now
	return s
}

func (s *sim) after(d time.Duration, do func()) {
	heap.Push(&s.events, event{s.now.Add(d), len(s.events), do})
}

// add adds a client that has n jobs under way.
func (s *sim) add(name string, n, asks, costs int) *client {
	c := &client{name: name, asks: asks, costs: costs, pause: 200 * time.Microsecond}
	s.clients[name] = c
	s.after(0, func() { s.put(c, n) })
	return c
}

func (s *sim) put(c *client, n int) {
	for range n {
		s.q.put(Job{Queued: s.now, Cost: c.asks, From: c.name}, s.now)
	}
	s.wake()
}

// wake has a sender that is idle, if there is one, take what there is.
func (s *sim) wake() {
	if s.idle > 0 {
		s.idle--
		s.send()
	}
}

// send has a sender take what there is.
func (s *sim) send() {
	b := s.q.take(s.now, MaxBatch, nil)
	if len(b.jobs) == 0 {
		s.idle++
		return
	}
	if arrives := s.now.Add(s.way); arrives.After(s.free) {
		s.free = arrives
	}
	for _, j := range b.jobs {
		c := s.clients[j.From]
		took := time.Duration(c.costs) * timeOfSingle
		c.worked += took
		s.free = s.free.Add(took)
		s.longest = max(s.longest, s.now.Sub(j.Queued))
	}
	s.after(s.free.Add(s.way).Sub(s.now), func() { s.answer(&b) })
}

// answer has clients ask again whose jobs are done.
func (s *sim) answer(b *batch) {
	s.q.answered(b, s.now)
	again := map[string]int{}
	for _, j := range b.jobs {
		again[j.From]++
	}
	for _, name := range slices.Sorted(maps.Keys(again)) {
		c := s.clients[name]
		c.done += again[name]
		s.after(c.pause, func() { s.put(c, again[name]) })
	}
	if b.heavy > 0 { // as Pipeline.taken does
		s.wake()
	}
	s.send()
	if pause := s.q.pause(s.now); pause > 0 {
		s.after(pause, s.wake)
	}
}

// run goes on for a time, of which only the second half counts.
func (s *sim) run(t *testing.T, d time.Duration) {
	t.Helper()
	for _, end := range []time.Time{s.now.Add(d / 2), s.now.Add(d)} {
		for _, c := range s.clients {
			c.done, c.worked = 0, 0
		}
		s.longest = 0
		for len(s.events) > 0 && !s.events[0].at.After(end) {
			e := heap.Pop(&s.events).(event)
			s.now = e.at
			e.do()
			if s.q.n > 0 && s.idle == Window && s.q.pause(s.now) <= 0 {
				t.Fatal("jobs wait, and nobody looks for them")
			}
		}
		s.now = end
	}
}

const near = 50 * time.Microsecond

// Who has few requests keeps half of its speed beside jobs of any length, and beside any number of them.
func TestANeighbourKeepsItsSpeed(t *testing.T) {
	speed := func(tenants, jobs, cost int) int {
		s := newSim(near)
		light := s.add("light", 8, 2, 2)
		for i := range tenants {
			s.add(fmt.Sprint("flood", i), jobs, cost, cost)
		}
		s.run(t, 600*time.Millisecond)
		return light.done
	}
	alone := speed(0, 0, 0)
	for _, tenants := range []int{1, 10} {
		for _, cost := range []int{1, 17, 100, 400, 5000} {
			if part := float64(speed(tenants, 1+2000/cost, cost)) / float64(alone); part < 0.5 {
				t.Errorf("beside %d with jobs of %d it keeps %.2f of its speed", tenants, cost, part)
			}
		}
	}
}

// Heavy tenants have equal parts of Redis, whatever each asks for, with and without a light one beside them.
func TestHeavyTenantsShareEqually(t *testing.T) {
	for _, light := range []bool{false, true} {
		for _, cost := range []int{1, 17, 120} {
			for _, others := range []int{1, 10} {
				s := newSim(near)
				dear := s.add("dear", 200, cost, cost)
				for i := range others {
					s.add(fmt.Sprint(i), 300, 1, 1)
				}
				if light {
					s.add("light", 4, 2, 2)
				}
				s.run(t, 400*time.Millisecond)
				for i := range others {
					if c := s.clients[fmt.Sprint(i)]; dear.worked > c.worked*3/2 || c.worked > dear.worked*3/2 {
						t.Errorf("light %v, jobs of %d beside %d others: Redis worked %v, and %v for another one", light, cost,
							others, dear.worked, c.worked)
					}
				}
			}
		}
	}
}

// Whoever asks, in whatever way, is served, and nobody waits longer than all the others take for a few turns.
func TestNobodyWaitsForEver(t *testing.T) {
	for _, c := range []struct{ lights, heavies, cost int }{
		{100, 3, 2}, {3, 100, 2}, {12, 3, 300}, {0, 50, 60}, {50, 1, 5000}, {1, 1, 64},
	} {
		s := newSim(near)
		for i := range c.lights {
			s.add(fmt.Sprint("light", i), 1+i%16, 2, 2)
		}
		for i := range c.heavies {
			s.add(fmt.Sprint("heavy", i), 1+(lightLoad+i)/c.cost, c.cost, c.cost)
		}
		s.run(t, time.Second)
		for name, cl := range s.clients {
			if cl.done == 0 {
				t.Errorf("%+v: nothing was done for %s", c, name)
			}
		}
	}
}

// Of many that ask for as much, nobody gets much less than the others or waits much longer, and Redis is never idle.
func TestManyBusyTenantsWaitAlike(t *testing.T) {
	const tenants, each, length = 100, 100, time.Second
	s := newSim(near)
	for i := range tenants {
		s.add(fmt.Sprint(i), each, 1, 1)
	}
	s.run(t, length)
	sum, least := 0, each*int(length)
	for _, c := range s.clients {
		sum += c.done
		least = min(least, c.done)
	}
	if full := int(length / 2 / timeOfSingle); sum < full*4/5 {
		t.Errorf("%d jobs were done, want nearly %d", sum, full)
	}
	if alike := length / 2 * tenants * each / time.Duration(sum); s.longest > 4*alike {
		t.Errorf("one waited for %v, and all would if each waited for %v", s.longest, alike)
	}
	if mean := sum / tenants; least < mean/2 {
		t.Errorf("one got %d, want about %d", least, mean)
	}
}

// If Redis is far away, the way decides about everybody's speed: nobody is held up for others.
func TestFarAwayNobodyIsHeldUp(t *testing.T) {
	const way = 10 * time.Millisecond
	s := newSim(way)
	flood, light := s.add("flood", 1000, 1, 1), s.add("light", 8, 2, 2)
	s.run(t, 4*time.Second)
	if full := int(2 * time.Second / (2*way + time.Millisecond) * Window * (MaxBatch - 8)); flood.done < full*4/5 {
		t.Errorf("%d jobs of the flood were done, want nearly %d", flood.done, full)
	}
	if least := int(8 * 2 * time.Second / (5 * way)); light.done < least {
		t.Errorf("%d jobs of the other were done, want at least %d", light.done, least)
	}
}
