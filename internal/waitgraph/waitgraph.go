// Package waitgraph finds deadlocks in a graph of who waits for whom.
//
// # What it promises
//
// An actor is stuck if none of what it waits for can be granted unless another stuck actor gives something back first.
// Who does not wait is never stuck, and neither is an actor that nobody knows. Each Deadlock has stuck actors only; and
// wherever stuck actors wait for each other in a circle, one such circle is told. Finding them takes time in proportion
// to the graph.
//
// # What it does not promise
//
// It believes what it is told. Whether all of the graph was true at one moment is up to the caller.
//
// # How it works
//
// Actors that are not stuck are taken out, and then those that wait for nobody else, again and again (Holt's reduction,
// for requests that want some of several: Bracha and Toueg). What remains is stuck. Circles are found in its strongly
// connected components (Tarjan). docs/decisions has the sources.
package waitgraph

// Wait is one request. It is granted once all of its Needs are met.
type Wait struct {
	Actor string // who waits
	Needs []Need
}

// Need is one thing that a request waits for: so much of what others hold.
type Need struct {
	// Want is how much must come back from the holders. If it is 0 or less the need is met.
	Want    int64
	Holders []Share
}

// Share is how much an actor holds. An empty Actor is one that nobody knows, who gives it back some time.
type Share struct {
	Actor  string
	Amount int64
}

// Edge is a request, and one of the holders that is in its way.
type Edge struct{ Wait, Need, Holder int } // places in the graph

// Cycle has waits in a circle: the actor of each one holds what the one before it waits for, and that of the first one
// what the last one waits for.
type Cycle []Edge

// Deadlock is a Cycle, and all that shows that its actors are stuck.
type Deadlock struct {
	Cycle Cycle
	// Waits are places in the graph: of all requests of these actors, of those for whom they wait, and so on.
	Waits []int
}

// Find returns deadlocks: one for each group of stuck actors that wait for each other. Their order, and that inside of
// them, is that of the graph.
func Find(waits []Wait) []Deadlock {
	g := build(waits)
	g.reduce()
	return g.deadlocks()
}

// Stuck returns which of the waits are of stuck actors.
func Stuck(waits []Wait) []bool {
	g := build(waits)
	g.reduce()
	stuck := make([]bool, len(waits))
	for i, w := range g.actorOf {
		stuck[i] = !g.live[w]
	}
	return stuck
}

// graph has its actors as numbers.
type graph struct {
	waits   []Wait
	actorOf []int     // of a wait
	of      [][]int   // the waits of an actor
	blocks  [][]needs // in which needs an actor has a share
	numbers map[string]int
	live    []bool
	unmet   []int     // needs of a wait
	want    [][]int64 // what is still wanted of each need
	freed   []int     // actors that are live, but whose shares were not counted yet
}

// needs is a share of an actor.
type needs struct {
	wait, need int
	amount     int64
}

func build(waits []Wait) *graph {
	g := &graph{waits: waits, numbers: make(map[string]int, len(waits))}
	for i, w := range waits {
		n, known := g.numbers[w.Actor]
		if !known || w.Actor == "" {
			n = len(g.of)
			g.of = append(g.of, nil)
			if w.Actor != "" {
				g.numbers[w.Actor] = n
			}
		}
		g.of[n] = append(g.of[n], i)
		g.actorOf = append(g.actorOf, n)
	}
	g.blocks = make([][]needs, len(g.of))
	g.live = make([]bool, len(g.of))
	g.unmet = make([]int, len(waits))
	g.want = make([][]int64, len(waits))
	for i := range waits {
		g.addNeeds(i)
	}
	return g
}

// addNeeds notes what a wait needs, and of whom. What live actors hold comes back.
func (g *graph) addNeeds(i int) {
	w := g.waits[i]
	g.unmet[i] = len(w.Needs)
	g.want[i] = make([]int64, len(w.Needs))
	for j, need := range w.Needs {
		left := need.Want
		for _, s := range need.Holders {
			if n, waiting := g.numbers[s.Actor]; waiting {
				g.blocks[n] = append(g.blocks[n], needs{i, j, s.Amount})
			} else {
				left -= s.Amount
			}
		}
		g.want[i][j] = left
		if left <= 0 {
			g.unmet[i]--
		}
	}
	if g.unmet[i] == 0 {
		g.free(g.actorOf[i])
	}
}

// free takes note that an actor is not stuck.
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
		for _, b := range g.blocks[n] {
			before := g.want[b.wait][b.need]
			after := before - b.amount
			g.want[b.wait][b.need] = after
			if before > 0 && after <= 0 {
				if g.unmet[b.wait]--; g.unmet[b.wait] == 0 {
					g.free(g.actorOf[b.wait])
				}
			}
		}
	}
}

// edges calls f with each edge from a stuck actor to another one, or to itself, until f says no.
func (g *graph) edges(n int, f func(Edge, int) bool) {
	for _, i := range g.of[n] {
		for j, need := range g.waits[i].Needs {
			if g.want[i][j] <= 0 {
				continue
			}
			for k, s := range need.Holders {
				to, waiting := g.numbers[s.Actor]
				if waiting && !g.live[to] && !f(Edge{i, j, k}, to) {
					return
				}
			}
		}
	}
}
