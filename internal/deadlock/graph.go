package deadlock

import (
	"iter"

	"github.com/lockd-io/lockd/internal/lock"
)

// graph finds the actors that wait for ever: none of their requests can be granted unless another such actor releases
// something first. Who does not wait is not one of them.
//
// All who can go on are taken out, and then those who wait only for them, again and again (Holt's reduction, for
// requests that want some of several: Bracha and Toueg). What remains is stuck. The time is in proportion to the graph.
type graph struct {
	needs   [][]need       // of each request
	numbers map[string]int // of the actors that wait
	actorOf []int          // of each request
	of      [][]int        // the requests of each actor
	unmet   []int          // how many needs of each request are not met
	holds   [][]held       // of each actor, those that somebody needs
	live    []bool         // actors that are not stuck
	freed   []int          // live ones whose holds were not counted yet
}

// need is one lock that a request waits for. It is met once so much came back from the holders. Those with an empty
// Actor are unknown, and release some time.
type need struct {
	want    int64
	holders []Hold
}

// held is a hold, and the need that it is in the way of.
type held struct {
	request, need int
	amount        int64
}

// amount is how much a hold takes of its name.
func amount(h Hold) int64 {
	if h.Kind == lock.Semaphore {
		return int64(h.Permits)
	}
	return 1
}

// newGraph takes requests with what they need, and finds who is stuck. It changes the needs.
func newGraph(waits []Wait, needs [][]need) *graph {
	g := &graph{needs: needs, numbers: make(map[string]int, len(waits)), unmet: make([]int, len(waits))}
	for i, w := range waits {
		n, known := g.numbers[w.Actor]
		if !known {
			n = len(g.of)
			g.of = append(g.of, nil)
			g.numbers[w.Actor] = n
		}
		g.of[n] = append(g.of[n], i)
		g.actorOf = append(g.actorOf, n)
	}
	g.holds = make([][]held, len(g.of))
	g.live = make([]bool, len(g.of))
	if n, waits := g.numbers[""]; waits { // whoever these are, they may go on
		g.free(n)
		delete(g.numbers, "")
	}
	for i := range waits {
		g.count(i)
	}
	g.reduce()
	return g
}

// count finds which needs of a request are not met. What actors hold that do not wait comes back.
func (g *graph) count(i int) {
	for j := range g.needs[i] {
		need := &g.needs[i][j]
		for _, h := range need.holders {
			if n, waits := g.numbers[h.Actor]; waits {
				g.holds[n] = append(g.holds[n], held{i, j, amount(h)})
			} else {
				need.want -= amount(h)
			}
		}
		if need.want > 0 {
			g.unmet[i]++
		}
	}
	if g.unmet[i] == 0 {
		g.free(g.actorOf[i])
	}
}

func (g *graph) free(n int) {
	if !g.live[n] {
		g.live[n] = true
		g.freed = append(g.freed, n)
	}
}

// reduce finds all that are not stuck.
func (g *graph) reduce() {
	for len(g.freed) > 0 {
		n := g.freed[len(g.freed)-1]
		g.freed = g.freed[:len(g.freed)-1]
		for _, h := range g.holds[n] {
			need := &g.needs[h.request][h.need]
			before := need.want
			need.want -= h.amount
			if before > 0 && need.want <= 0 {
				if g.unmet[h.request]--; g.unmet[h.request] == 0 {
					g.free(g.actorOf[h.request])
				}
			}
		}
	}
}

// edge is a request, and a hold that is in its way: both are of stuck actors.
type edge struct {
	request, need int
	hold          *Hold
}

// edges are those from a stuck actor to another one, or to itself, with the actor to which each leads.
func (g *graph) edges(n int) iter.Seq2[edge, int] {
	return func(yield func(edge, int) bool) {
		for _, i := range g.of[n] {
			for j, need := range g.needs[i] {
				for k := range need.holders {
					to, waits := g.numbers[need.holders[k].Actor]
					if need.want > 0 && waits && !g.live[to] && !yield(edge{i, j, &need.holders[k]}, to) {
						return
					}
				}
			}
		}
	}
}
