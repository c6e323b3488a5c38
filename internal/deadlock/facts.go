package deadlock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxEdges bounds the graph: how often a hold is in the way of a request.
const maxEdges = 500_000

// facts are what the replicas told, and the limits of semaphores as far as they were read.
type facts struct {
	waits  []Wait
	holds  map[string][]Hold
	limits map[string]uint32   // nil if they are not known yet: then the known holders are taken for all
	free   map[lock.Owner]bool // requests that are taken for granted
}

// ordered puts waits and holds in an order that does not depend on who answered first. The youngest waits come first:
// a circle is told through the first one that is in any, so what is told is the circle that the youngest
// request closed.
func ordered(answers []Answer) (waits []Wait, holds map[string][]Hold) {
	holds = make(map[string][]Hold)
	for _, a := range answers {
		waits = append(waits, a.Waits...)
		for _, h := range a.Holds {
			holds[h.Name] = append(holds[h.Name], h)
		}
	}
	slices.SortFunc(waits, func(v, w Wait) int { return cmp.Or(cmp.Compare(v.Age, w.Age), cmp.Compare(w.Owner, v.Owner)) })
	seen := make(map[lock.Owner]bool, len(waits))
	waits = slices.DeleteFunc(waits, func(w Wait) bool {
		again := seen[w.Owner]
		seen[w.Owner] = true
		return again
	})
	for name, hs := range holds {
		slices.SortFunc(hs, func(g, h Hold) int { return cmp.Compare(g.Owner, h.Owner) })
		holds[name] = slices.CompactFunc(hs, func(g, h Hold) bool { return g.Owner == h.Owner })
	}
	return waits, holds
}

// graph has what the requests need.
func (f facts) graph() *graph {
	edges := 0
	known := make(map[Want]need) // requests that want the same have the same holders
	needs := make([][]need, len(f.waits))
	for i, w := range f.waits {
		if f.free[w.Owner] {
			continue
		}
		for _, want := range w.Wants {
			n, seen := known[want]
			if !seen {
				n = f.need(want)
				known[want] = n
			}
			if edges += len(n.holders); edges > maxEdges {
				needs[i] = nil // as if it were granted
				break
			}
			needs[i] = append(needs[i], n)
		}
	}
	return newGraph(f.waits, needs)
}

// inTheWay are the holds that keep a lock from whoever wants it.
func (f facts) inTheWay(want Want) (hs []Hold) {
	for _, h := range f.holds[want.Name] {
		if want.Kind != lock.Read || h.Kind != lock.Read {
			hs = append(hs, h)
		}
	}
	return hs
}

// need is what must come back before a lock can be had: every hold that is in the way, or some of the permits.
func (f facts) need(want Want) need {
	n := need{holders: f.inTheWay(want)}
	var out int64
	for _, h := range n.holders {
		out += amount(h)
	}
	limit := int64(f.limits[want.Name])
	switch {
	case want.Kind != lock.Semaphore:
		n.want = out
	case f.limits == nil:
		n.want = min(int64(want.Permits), out)
	case limit > 0: // what is not out comes to those who wait, and so does what nobody known here has
		n.want = int64(want.Permits) - (limit - out)
	}
	return n
}

// suspect is what looks like a deadlock, before it is confirmed.
type suspect struct {
	actors []string
	names  []string
	kinds  map[string]lock.Kind
	seen   map[lock.Owner]bool
	holds  map[Hold]bool // without their permits, which may become fewer
}

// suspects puts together all that deadlocks depend on.
func (f facts) suspects(cs []circle) (s suspect) {
	s.kinds, s.seen, s.holds = make(map[string]lock.Kind), make(map[lock.Owner]bool), make(map[Hold]bool)
	actors := make(map[string]bool)
	for _, c := range cs {
		for _, i := range c.requests {
			w := f.waits[i]
			actors[w.Actor], s.seen[w.Owner] = true, true
			for _, want := range w.Wants {
				s.kinds[want.Name] = want.Kind
				for _, h := range f.inTheWay(want) {
					h.Permits = 0
					s.holds[h] = true
				}
			}
		}
	}
	s.actors, s.names = slices.Collect(maps.Keys(actors)), slices.Collect(maps.Keys(s.kinds))
	return s
}

// confirm keeps what was seen before. A request that was not makes its actor one that is not stuck.
func (s suspect) confirm(waits []Wait, holds map[string][]Hold, limits map[string]uint32) facts {
	f := facts{waits: waits, holds: make(map[string][]Hold), limits: limits, free: make(map[lock.Owner]bool)}
	for _, w := range waits {
		f.free[w.Owner] = !s.seen[w.Owner]
	}
	for name, hs := range holds {
		for _, h := range hs {
			same := h
			if same.Permits = 0; s.holds[same] {
				f.holds[name] = append(f.holds[name], h)
			}
		}
	}
	return f
}

// maxMembers is how many members of a deadlock are told.
const maxMembers = 32

// describe tells a deadlock.
func (f facts) describe(c circle) (d Deadlock) {
	for _, e := range c.edges {
		w := f.waits[e.request]
		m := Member{
			Owner: w.Owner, Want: w.Wants[e.need], Age: w.Age, HeldBy: e.hold.Owner, Fence: e.hold.Fence,
		}
		if w.About != nil {
			m.About = *w.About
		}
		d.Members = append(d.Members, m)
	}
	byAge := func(m, o Member) int { return cmp.Or(cmp.Compare(m.Age, o.Age), cmp.Compare(o.Owner, m.Owner)) }
	sorted := slices.SortedFunc(slices.Values(d.Members), byAge) // the youngest first
	if i := slices.IndexFunc(sorted, func(m Member) bool { return m.About.Fails }); i >= 0 {
		d.Victim = sorted[i].Owner
	}
	youngest := slices.IndexFunc(d.Members, func(m Member) bool { return m.Owner == sorted[0].Owner })
	d.Members = slices.Concat(d.Members[youngest:], d.Members[:youngest])
	if d.Omitted = max(len(d.Members)-maxMembers, 0); d.Omitted > 0 {
		d.Members = d.Members[:maxMembers]
	}
	return d
}
