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
		for _, to := range g.edges(next[0]) {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	slices.Sort(requests)
	return requests
}

// shortest is a shortest circle through an actor, inside of its group; nil if there is none.
func (g *graph) shortest(from int, group []int) (circle []edge) {
	type step struct {
		edge edge
		from int
	}
	came := map[int]step{}
	for next := []int{from}; len(next) > 0; next = next[1:] {
		for e, to := range g.edges(next[0]) {
			if _, seen := came[to]; seen || group[to] != group[from] {
				continue
			}
			came[to] = step{e, next[0]}
			next = append(next, to)
			if to != from {
				continue
			}
			for at := from; len(circle) == 0 || at != from; at = came[at].from {
				circle = append(circle, came[at].edge)
			}
			slices.Reverse(circle)
			return circle
		}
	}
	return nil
}

// groups numbers the strongly connected components of the stuck actors (Tarjan), from 1 on. visit calls itself for each
// actor of a chain, of which there are as many at most as requests that wait.
func (g *graph) groups() (group []int) {
	group = make([]int, len(g.of))                               // 0: not known yet
	index, low := make([]int, len(g.of)), make([]int, len(g.of)) // 0: not visited
	visited, groups := 0, 0
	var stack []int
	var visit func(n int)
	visit = func(n int) {
		visited++
		index[n], low[n] = visited, visited
		stack = append(stack, n)
		for _, to := range g.edges(n) {
			if index[to] == 0 {
				visit(to)
				low[n] = min(low[n], low[to])
			} else if group[to] == 0 {
				low[n] = min(low[n], index[to])
			}
		}
		if low[n] < index[n] {
			return
		}
		groups++ // n is the first one of its group that was visited: the group is on the stack from it on
		first := len(stack) - 1
		for stack[first] != n {
			first--
		}
		for _, m := range stack[first:] {
			group[m] = groups
		}
		stack = stack[:first]
	}
	for n := range g.of {
		if !g.live[n] && index[n] == 0 {
			visit(n)
		}
	}
	return group
}
