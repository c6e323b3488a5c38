package deadlock

import "slices"

// circle has edges in a circle: the actor of each one holds what the one before it waits for, and that of the first one
// what the last one waits for.
type circle struct {
	edges []edge
	// requests show that these actors are stuck: all of theirs, of those for whom they wait, and so on.
	requests []int
}

// circles has one circle of each group of stuck actors that wait for each other: a shortest one through its first
// actor.
func (g *graph) circles() (cs []circle) {
	group := g.groups()
	done := make(map[int]bool)
	for n := range g.of {
		if g.live[n] || done[group[n]] {
			continue
		}
		if edges := g.shortest(n, group); edges != nil {
			done[group[n]] = true
			cs = append(cs, circle{edges, g.behind(n)})
		}
	}
	return cs
}

// behind are the requests of an actor, of those it waits for, and so on.
func (g *graph) behind(n int) (requests []int) {
	seen := map[int]bool{n: true}
	for next := []int{n}; len(next) > 0; next = next[1:] {
		requests = append(requests, g.of[next[0]]...)
		g.edges(next[0], func(_ edge, to int) bool {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
			return true
		})
	}
	slices.Sort(requests)
	return requests
}

// shortest is a shortest circle through an actor, inside of its group; nil if there is none.
func (g *graph) shortest(from int, group []int) []edge {
	type step struct {
		edge edge
		from int
	}
	came := map[int]step{}
	for next := []int{from}; len(next) > 0; {
		n := next[0]
		next = next[1:]
		closed := false
		g.edges(n, func(e edge, to int) bool {
			_, seen := came[to]
			if group[to] != group[from] || seen {
				return true
			}
			came[to] = step{e, n}
			next = append(next, to)
			closed = to == from
			return !closed
		})
		if !closed {
			continue
		}
		var back []edge
		for at := from; len(back) == 0 || at != from; at = came[at].from {
			back = append(back, came[at].edge)
		}
		slices.Reverse(back)
		return back
	}
	return nil
}

// groups numbers the strongly connected components of the stuck actors (Tarjan).
func (g *graph) groups() []int {
	t := &tarjan{g: g, index: make([]int, len(g.of)), low: make([]int, len(g.of)), group: make([]int, len(g.of))}
	for n := range g.of {
		if !g.live[n] && t.index[n] == 0 {
			t.visit(n)
		}
	}
	return t.group
}

type tarjan struct {
	g          *graph
	index, low []int // from 1 on; 0 for one that was not visited
	group      []int // from 1 on; 0 for one whose group is not known yet
	stack      []int
	last       int // index
	groups     int
}

// visit calls itself for each actor of a chain. There are as many at most as requests that wait.
func (t *tarjan) visit(n int) {
	t.last++
	t.index[n], t.low[n] = t.last, t.last
	t.stack = append(t.stack, n)
	t.g.edges(n, func(_ edge, to int) bool {
		if t.index[to] == 0 {
			t.visit(to)
			t.low[n] = min(t.low[n], t.low[to])
		} else if t.group[to] == 0 {
			t.low[n] = min(t.low[n], t.index[to])
		}
		return true
	})
	if t.low[n] < t.index[n] {
		return
	}
	t.groups++ // n is the first one of its group that was visited: the group is on the stack above it
	for m := -1; m != n; {
		m = t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.group[m] = t.groups
	}
}
