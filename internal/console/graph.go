package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Bounds of a graph: all its waits, of which permits and readers have as many as waiters times holders, and the holders
// that one request waits for.
const (
	mostWaits    = 2000
	holdersOfOne = 16
)

// graph is a picture that is being made.
type graph struct {
	*foundBlockers
	one   parties
	all   map[string]*node
	edges map[[3]string]bool
}

// node is the node of a session, or of what else the id names.
func (g *graph) node(id, client, replica string) *node {
	all := g.one.of(id)
	n := g.all[all]
	if n == nil {
		n = &node{ID: all, Client: client, Replica: replica, by: map[*node]bool{}}
		g.all[all] = n
		g.Nodes = append(g.Nodes, n)
	}
	return n
}

// add makes a request wait for a hold; if h is nil, for somebody who is not known. It says whether there was room.
func (g *graph) add(w *lockdv1.WaiterInfo, h *lockdv1.HolderInfo) bool {
	if len(g.edges) >= mostWaits {
		g.Cut = true
		return false
	}
	of := cmp.Or(h.GetSessionId(), "lock:"+w.GetName())
	by := cmp.Or(w.GetSessionId(), "a call from "+w.GetPeer())
	key := [3]string{g.one.of(by), g.one.of(of), w.GetName()}
	if key[0] == key[1] || g.edges[key] { // readers of its own session, or a second request
		return true
	}
	g.edges[key] = true
	from, to := g.node(by, w.GetClientName(), w.GetReplica()), g.node(of, h.GetClientName(), h.GetReplica())
	if h == nil {
		to.Client = "not a session: another program, or one that was not asked"
	}
	from.knows(w.GetSessionId(), w.GetAnnotation())
	to.knows(h.GetSessionId(), h.GetAnnotation())
	if !slices.Contains(to.Holds, w.GetName()) { // the first of its sessions is to be one that others wait for
		if len(to.Holds) == 0 && h.GetSessionId() != "" {
			to.Sessions = slices.DeleteFunc(to.Sessions, func(s string) bool { return s == h.GetSessionId() })
			to.Sessions = slices.Insert(to.Sessions, 0, h.GetSessionId())
		}
		to.Client, to.Replica = cmp.Or(h.GetClientName(), to.Client), cmp.Or(h.GetReplica(), to.Replica)
		to.Annotation = cmp.Or(h.GetAnnotation(), to.Annotation)
		to.Holds = append(to.Holds, w.GetName())
	}
	e := &edge{From: from, To: to, Name: w.GetName()}
	from.to, to.by[from] = append(from.to, e), true
	if to.Longest == nil || w.GetAge().AsDuration() > to.Longest.AsDuration() {
		to.Longest = w.GetAge()
	}
	return true
}

func (n *node) knows(session, annotation string) {
	if session != "" && !slices.Contains(n.Sessions, session) {
		n.Sessions = append(n.Sessions, session)
	}
	n.Annotation = cmp.Or(n.Annotation, annotation)
}

// draw makes the graph. Those who wait longest come into it first.
func (f *foundBlockers) draw(one parties, waiters []*lockdv1.WaiterInfo, holders map[string][]*lockdv1.HolderInfo) {
	g := &graph{foundBlockers: f, one: one, all: map[string]*node{}, edges: map[[3]string]bool{}}
	for _, w := range waiters {
		by := holders[w.GetName()]
		if len(by) == 0 {
			by = []*lockdv1.HolderInfo{nil}
		}
		if len(by) > holdersOfOne {
			by, f.Cut = by[:holdersOfOne], true
		}
		for _, h := range by {
			if !g.add(w, h) {
				break
			}
		}
	}
	for _, n := range f.Nodes {
		n.Blocks, n.InCircle = n.blocks()
	}
	most := func(a, b *node) int { return cmp.Compare(b.Blocks, a.Blocks) }
	f.Top = slices.SortedStableFunc(slices.Values(f.Nodes), most)
	f.Top = slices.DeleteFunc(f.Top, func(n *node) bool { return n.Blocks == 0 })
	f.chains()
	f.layOut()
	f.Top = f.Top[:min(len(f.Top), 10)]
}

// mostSteps bounds what is looked at for one node: with more than so many others it is a crowd whatever the number.
const mostSteps = 1000

// blocks counts the others who wait for a node, directly or through others. circle: it waits for itself.
func (n *node) blocks() (count int, circle bool) {
	seen, next := map[*node]bool{}, []*node{n}
	for len(next) > 0 && len(seen) < mostSteps {
		at := next[0]
		next = next[1:]
		for by := range at.by {
			if !seen[by] {
				seen[by] = true
				next = append(next, by)
			}
		}
	}
	if seen[n] {
		return len(seen) - 1, true
	}
	return len(seen), false
}

// chains finds the longest chains to those for whom most wait: in a chain each waits for the next one.
func (f *foundBlockers) chains() {
	byID := func(a, b *node) int { return cmp.Compare(a.ID, b.ID) }
	for _, root := range f.Top {
		if len(root.to) > 0 && !root.InCircle || len(f.Chains) == mostChains {
			continue
		}
		parent, last, next := map[*node]*node{root: nil}, root, []*node{root}
		for len(next) > 0 { // the one that is found last is farthest
			last, next = next[0], next[1:]
			for _, by := range slices.SortedFunc(maps.Keys(last.by), byID) {
				if _, seen := parent[by]; !seen {
					parent[by] = last
					next = append(next, by)
				}
			}
		}
		var chain []*edge
		for at := last; parent[at] != nil; at = parent[at] {
			chain = append(chain, at.to[slices.IndexFunc(at.to, func(e *edge) bool { return e.To == parent[at] })])
		}
		if len(chain) > 0 {
			f.Chains = append(f.Chains, chain)
		}
	}
	slices.SortStableFunc(f.Chains, func(a, b []*edge) int { return cmp.Compare(len(b), len(a)) })
}

// Sizes of the picture.
const (
	boxWidth, boxHeight = 230, 84
	gapX, gapY          = 110, 22
	margin              = 40
)

// layOut gives the first nodes places: those who wait for nobody are at the right, and whoever waits is left of those
// he waits for.
func (f *foundBlockers) layOut() {
	shown := map[*node]bool{}
	var order []*node
	for _, n := range append(slices.Clone(f.Top), f.Nodes...) { // who blocks most is surely among them
		if !shown[n] && len(shown) < mostNodes {
			shown[n] = true
			order = append(order, n)
		}
	}
	f.Cut = f.Cut || len(f.Nodes) > len(order)
	deepest := 0
	for range order { // a circle ends with this
		for _, n := range order {
			for _, e := range n.to {
				again := n.InCircle && e.To.InCircle && n.depth > 0
				if shown[e.To] && n.depth <= e.To.depth && e.To.depth < 8 && !again {
					n.depth = e.To.depth + 1
				}
			}
			deepest = max(deepest, n.depth)
		}
	}
	rows := map[int]int{}
	for _, n := range order {
		n.X = margin + (deepest-n.depth)*(boxWidth+gapX)
		n.Y = margin + rows[n.depth]*(boxHeight+gapY)
		rows[n.depth]++
		f.Width, f.Height = max(f.Width, n.X+boxWidth+margin), max(f.Height, n.Y+boxHeight+margin)
	}
	f.Nodes = order
	for _, n := range order {
		for _, e := range n.to {
			if !shown[e.To] || len(f.Edges) == mostEdges {
				continue
			}
			e.Path = curve(n, e.To)
			f.Edges = append(f.Edges, e)
		}
	}
}

// curve leads from a node to another one: to the right, above what is between, or back above them.
func curve(from, to *node) string {
	x1, y1, x2, y2 := from.X+boxWidth, from.Y+boxHeight/2, to.X, to.Y+boxHeight/2
	bend, rise := gapX/2, 0
	switch {
	case x2 <= x1: // back
		x1, y1, x2, y2 = from.X+boxWidth/2, from.Y, to.X+boxWidth/2, to.Y
		bend, rise = 0, -margin
	case x2-x1 > gapX:
		rise = -(boxHeight + gapY)
	}
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+bend, y1+rise, x2-bend, y2+rise, x2, y2)
}

// Root says whether it waits for nobody.
func (n *node) Root() bool { return len(n.to) == 0 }

// Waits are the names that it waits for.
func (n *node) Waits() (names []string) {
	for _, e := range n.to {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Session is one of it, to look at; empty if none is known.
func (n *node) Session() string {
	if len(n.Sessions) == 0 {
		return ""
	}
	return n.Sessions[0]
}

// Title is how a node is called.
func (n *node) Title() string { return cmp.Or(n.Client, n.ID) }
