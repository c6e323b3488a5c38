package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// How much is drawn and listed.
const (
	mostNodes  = 24
	mostEdges  = 80
	mostChains = 5
)

// node is a session, or another program, that waits for others or that others wait for.
type node struct {
	ID, Client, Replica string
	Blocks              int // that wait for it, directly or for one another
	Longest             *durationpb.Duration
	InCircle            bool
	X, Y                int // of its box

	to    []*edge        // whom it waits for
	by    map[*node]bool // who waits for it
	depth int            // 0 waits for nobody
}

// edge says that one waits for a lock that another one holds.
type edge struct {
	From, To *node
	Name     string
	Path     string // its curve
}

type foundBlockers struct {
	asking
	Deadlocks     []*lockdv1.Deadlock
	Nodes         []*node
	Edges         []*edge
	Top           []*node   // that most others wait for
	Chains        [][]*edge // the longest ones
	Width, Height int
	Cut           bool
}

// lookBlockers finds who waits for whom, of what sessions wait for and hold.
func lookBlockers(ctx context.Context, _ *Console, a *asker, _ url.Values) (any, error) {
	f := &foundBlockers{}
	waiters, err := a.waiters(ctx, "", &f.asking)
	if err != nil {
		return nil, err
	}
	locked, err := a.inspect.ListDeadlocks(ctx, &lockdv1.ListDeadlocksRequest{})
	if err != nil {
		return nil, err
	}
	f.add(locked, "")
	f.Deadlocks = locked.GetDeadlocks()
	holders, err := f.holders(ctx, a, waiters)
	if err != nil {
		return nil, err
	}
	f.draw(waiters, holders)
	return f, nil
}

// holders are those of the names that are waited for. Replicas are asked for what sessions hold.
func (f *foundBlockers) holders(
	ctx context.Context, a *asker, waiters []*lockdv1.WaiterInfo,
) (map[string][]*node, error) {
	wanted, found := map[string]bool{}, map[string][]*node{}
	for _, w := range waiters {
		wanted[w.GetName()] = true
	}
	in := &lockdv1.ListHoldsRequest{PageSize: mostHolds, MinAge: durationpb.New(1)} // so Redis is not asked
	for range mostPages {
		if len(found) == len(wanted) {
			return found, nil
		}
		page, err := a.inspect.ListHolds(ctx, in)
		if err != nil {
			return nil, err
		}
		f.add(page, page.GetStoreError())
		for _, h := range page.GetHolds() {
			name, by := h.GetLock().GetName(), h.GetHolder()
			if wanted[name] {
				n := &node{ID: by.GetSessionId(), Client: by.GetClientName(), Replica: by.GetReplica()}
				found[name] = append(found[name], n)
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.PageToken == "" {
			break
		}
	}
	f.Cut = f.Cut || in.PageToken != ""
	return found, nil
}

// What a graph is made of at most: waits, as those for permits or for readers are as many as waiters times holders, and
// holders that one of them is for.
const (
	mostWaits    = 2000
	holdersOfOne = 16
)

// draw makes the graph: first of those who wait longest.
func (f *foundBlockers) draw(waiters []*lockdv1.WaiterInfo, holders map[string][]*node) {
	all, edges := map[string]*node{}, map[[3]string]bool{}
	of := func(n node) *node {
		if all[n.ID] == nil {
			n.by = map[*node]bool{}
			all[n.ID] = &n
			f.Nodes = append(f.Nodes, &n)
		}
		return all[n.ID]
	}
	for _, w := range waiters {
		by := holders[w.GetName()]
		if len(by) == 0 {
			by = []*node{{ID: "lock:" + w.GetName(), Client: "not a session: another program, or one that was not asked"}}
		}
		if len(by) > holdersOfOne {
			by, f.Cut = by[:holdersOfOne], true
		}
		id := cmp.Or(w.GetSessionId(), "a call from "+w.GetPeer())
		for _, h := range by {
			if len(edges) >= mostWaits {
				f.Cut = true
				break
			}
			key := [3]string{id, h.ID, w.GetName()}
			if h.ID == id || edges[key] { // readers of its own session, or a second request
				continue
			}
			edges[key] = true
			from, to := of(node{ID: id, Client: w.GetClientName(), Replica: w.GetReplica()}), of(*h)
			e := &edge{From: from, To: to, Name: w.GetName()}
			from.to, to.by[from] = append(from.to, e), true
			if to.Longest == nil || w.GetAge().AsDuration() > to.Longest.AsDuration() {
				to.Longest = w.GetAge()
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

// blocks are those who wait for a node, or for one who waits for it. It may be one of them.
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

// chains finds, from those at whom most wait, the longest ways of waiting: each waits for the next one.
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
	boxWidth, boxHeight = 190, 48
	gapX, gapY          = 110, 22
	margin              = 40
)

// layOut gives the first nodes places: who waits for nobody is at the right, and who waits for one is left of him.
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

// Title is how a node is called.
func (n *node) Title() string { return cmp.Or(n.Client, n.ID) }
