package waitgraph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/lockd-io/lockd/internal/waitgraph"
)

func one(holder string) waitgraph.Need {
	return waitgraph.Need{Want: 1, Holders: []waitgraph.Share{{Actor: holder, Amount: 1}}}
}

func wait(actor string, needs ...waitgraph.Need) waitgraph.Wait {
	return waitgraph.Wait{Actor: actor, Needs: needs}
}

// permits wants some of those that holders have one each of, besides spare ones.
func permits(want, spare int64, holders ...string) waitgraph.Need {
	n := waitgraph.Need{Want: want - spare}
	for _, h := range holders {
		n.Holders = append(n.Holders, waitgraph.Share{Actor: h, Amount: 1})
	}
	return n
}

func TestDeadlocksAreFoundAndNothingElse(t *testing.T) {
	for _, test := range []struct {
		name  string
		waits []waitgraph.Wait
		want  []string // the actors of each cycle
	}{
		{"nobody waits", nil, nil},
		{"two", []waitgraph.Wait{wait("a", one("b")), wait("b", one("a"))}, []string{"[a b]"}},
		{"with itself", []waitgraph.Wait{wait("a", one("a"))}, []string{"[a]"}},
		{"three, and one who waits for them", []waitgraph.Wait{
			wait("x", one("a")), wait("a", one("b")), wait("b", one("c")), wait("c", one("a")),
		}, []string{"[a b c]"}},
		{"the holder does not wait", []waitgraph.Wait{wait("a", one("b")), wait("c", one("b"))}, nil},
		{"nobody knows the holder", []waitgraph.Wait{wait("a", one("")), wait("", one("a"))}, nil},
		{"a writer waits for each of the readers", []waitgraph.Wait{
			wait("w", one("idle"), one("r")), wait("r", one("w")),
		}, []string{"[w r]"}},
		{"one of several permits comes back", []waitgraph.Wait{
			wait("a", permits(1, 0, "b", "idle")), wait("b", one("a")),
		}, nil},
		{"all permits are out for good", []waitgraph.Wait{
			wait("a", permits(1, 0, "b", "c")), wait("b", one("a")), wait("c", one("a")),
		}, []string{"[a b]"}},
		{"too few permits come back", []waitgraph.Wait{
			wait("a", permits(2, 0, "b", "idle")), wait("b", one("a")),
		}, []string{"[a b]"}},
		{"another request of the actor is granted", []waitgraph.Wait{
			wait("a", one("b")), wait("a", one("idle")), wait("b", one("a")),
		}, nil},
		{"two deadlocks", []waitgraph.Wait{
			wait("a", one("b")), wait("c", one("d")), wait("b", one("a")), wait("d", one("c")),
		}, []string{"[a b]", "[c d]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, d := range waitgraph.Find(test.waits) {
				var actors []string
				for _, e := range d.Cycle {
					actors = append(actors, test.waits[e.Wait].Actor)
				}
				got = append(got, fmt.Sprint(actors))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestALongChainIsNoDeadlock(t *testing.T) {
	const length = 200_000
	var chain []waitgraph.Wait
	for i := range length {
		chain = append(chain, wait(strconv.Itoa(i), one(strconv.Itoa(i+1))))
	}
	if cs := waitgraph.Find(chain); len(cs) != 0 {
		t.Fatalf("%d deadlocks were found in a chain", len(cs))
	}
	chain = append(chain, wait(strconv.Itoa(length), one("0")))
	cs := waitgraph.Find(chain)
	if len(cs) != 1 || len(cs[0].Cycle) != length+1 {
		t.Fatalf("%d deadlocks were found in a circle of %d", len(cs), length+1)
	}
}

// randomGraph has few actors, so that circles are as likely as none.
func randomGraph(r *rand.Rand) (waits []waitgraph.Wait) {
	actors := 1 + r.IntN(7)
	name := func() string {
		if n := r.IntN(actors + 2); n <= actors { // some of these do not wait
			return strconv.Itoa(n)
		}
		return ""
	}
	for range r.IntN(actors + 3) {
		w := waitgraph.Wait{Actor: name()}
		for range 1 + r.IntN(2) {
			var n waitgraph.Need
			for range 1 + r.IntN(3) {
				s := waitgraph.Share{Actor: name(), Amount: int64(1 + r.IntN(2))}
				n.Holders = append(n.Holders, s)
				n.Want += s.Amount
			}
			n.Want -= int64(r.IntN(int(n.Want) + 1)) // so much is there without them
			w.Needs = append(w.Needs, n)
		}
		waits = append(waits, w)
	}
	return waits
}

func TestRandomGraphsHaveTheDeadlocksOfTheReference(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 22))
	with := 0
	for i := range 100_000 {
		waits := randomGraph(r)
		found := waitgraph.Find(waits)
		if err := compare(waits, found, waitgraph.Stuck(waits)); err != nil {
			t.Fatalf("graph %d: %v\n%+v\nfound %v", i, err, waits, found)
		}
		if len(found) > 0 {
			with++
		}
	}
	if with < 5_000 || with > 95_000 {
		t.Errorf("%d of 100,000 graphs have a deadlock: they test little", with)
	}
}

// TestThePlantedBugsAreSeen has the comparison find what it is for.
func TestThePlantedBugsAreSeen(t *testing.T) {
	for name, plant := range map[string]func([]waitgraph.Wait) []waitgraph.Wait{
		"one stuck holder of permits is enough": func(waits []waitgraph.Wait) (wrong []waitgraph.Wait) {
			for _, w := range waits {
				var needs []waitgraph.Need
				for _, n := range w.Needs {
					for _, s := range n.Holders {
						if n.Want > 0 {
							needs = append(needs, waitgraph.Need{Want: s.Amount, Holders: []waitgraph.Share{s}})
						}
					}
				}
				wrong = append(wrong, waitgraph.Wait{Actor: w.Actor, Needs: needs})
			}
			return wrong
		},
		"only the last request of an actor counts": func(waits []waitgraph.Wait) (wrong []waitgraph.Wait) {
			last := make(map[string]int)
			for i, w := range waits {
				last[w.Actor] = i
			}
			for i, w := range waits {
				if last[w.Actor] == i {
					wrong = append(wrong, w)
				} else {
					wrong = append(wrong, waitgraph.Wait{Actor: "", Needs: w.Needs})
				}
			}
			return wrong
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 10_000 {
				waits := randomGraph(r)
				if newNaive(waits).compareStuck(waitgraph.Stuck(plant(waits))) != nil {
					return
				}
			}
			t.Error("nothing was seen")
		})
	}
}

// compare says in what an answer differs from that of a slow and simple search.
func compare(waits []waitgraph.Wait, found []waitgraph.Deadlock, stuck []bool) error {
	n := newNaive(waits)
	if err := n.compareStuck(stuck); err != nil {
		return err
	}
	groups := make(map[int]bool)
	for _, d := range found {
		if err := n.check(d.Cycle); err != nil {
			return err
		}
		if err := sufficient(waits, d); err != nil {
			return err
		}
		group := n.group(waits[d.Cycle[0].Wait].Actor)
		if groups[group] {
			return fmt.Errorf("two deadlocks of one group")
		}
		groups[group] = true
	}
	for _, a := range n.actors {
		if n.reach(a, a) > 0 && !groups[n.group(a)] {
			return fmt.Errorf("the deadlock of %q was not found", a)
		}
	}
	return nil
}

// sufficient says whether the waits of a deadlock are stuck without any others.
func sufficient(waits []waitgraph.Wait, d waitgraph.Deadlock) error {
	var alone []waitgraph.Wait
	for _, i := range d.Waits {
		alone = append(alone, waits[i])
	}
	for i, stuck := range waitgraph.Stuck(alone) {
		if !stuck {
			return fmt.Errorf("wait %d is not stuck by what the deadlock tells", d.Waits[i])
		}
	}
	for _, e := range d.Cycle {
		if !slices.Contains(d.Waits, e.Wait) {
			return fmt.Errorf("wait %d is missing", e.Wait)
		}
	}
	return nil
}

func (n *naive) compareStuck(stuck []bool) error {
	for i, w := range n.waits {
		want := w.Actor != "" && !n.live[w.Actor] || w.Actor == "" && !n.grantable(w)
		if stuck[i] != want {
			return fmt.Errorf("wait %d of %q: stuck is %t, want %t", i, w.Actor, stuck[i], want)
		}
	}
	return nil
}

// naive looks at everything again and again.
type naive struct {
	waits   []waitgraph.Wait
	actors  []string // that wait
	waiting map[string]bool
	live    map[string]bool
	nexts   map[string]map[string]bool // those that a stuck actor waits for
}

func newNaive(waits []waitgraph.Wait) *naive {
	n := &naive{waits: waits, waiting: make(map[string]bool), live: make(map[string]bool)}
	for _, w := range waits {
		if w.Actor != "" && !n.waiting[w.Actor] {
			n.waiting[w.Actor] = true
			n.actors = append(n.actors, w.Actor)
		}
	}
	for more := true; more; {
		more = false
		for _, w := range waits {
			if n.stuck(w.Actor) && n.grantable(w) {
				n.live[w.Actor], more = true, true
			}
		}
	}
	n.nexts = make(map[string]map[string]bool)
	for _, a := range n.actors {
		if n.stuck(a) {
			n.nexts[a] = n.next(a)
		}
	}
	return n
}

func (n *naive) stuck(actor string) bool { return n.waiting[actor] && !n.live[actor] }

func (n *naive) grantable(w waitgraph.Wait) bool {
	for _, need := range w.Needs {
		if !n.met(need) {
			return false
		}
	}
	return true
}

func (n *naive) met(need waitgraph.Need) bool {
	var back int64
	for _, s := range need.Holders {
		if !n.stuck(s.Actor) {
			back += s.Amount
		}
	}
	return back >= need.Want
}

// next are the stuck actors that a stuck actor waits for.
func (n *naive) next(actor string) map[string]bool {
	all := make(map[string]bool)
	for _, w := range n.waits {
		if w.Actor != actor {
			continue
		}
		for _, need := range w.Needs {
			for _, s := range need.Holders {
				if !n.met(need) && n.stuck(s.Actor) {
					all[s.Actor] = true
				}
			}
		}
	}
	return all
}

// reach is how many steps lead from one stuck actor to another one, or back to itself; 0 if none do.
func (n *naive) reach(from, to string) int {
	if !n.stuck(from) {
		return 0
	}
	at := map[string]bool{from: true}
	for steps := 1; steps <= len(n.actors); steps++ {
		next := make(map[string]bool)
		for a := range at {
			for b := range n.nexts[a] {
				next[b] = true
			}
		}
		if next[to] {
			return steps
		}
		at = next
	}
	return 0
}

// group is the place of the first actor with which it waits in a circle.
func (n *naive) group(actor string) int {
	for i, a := range n.actors {
		if a == actor || n.reach(a, actor) > 0 && n.reach(actor, a) > 0 {
			return i
		}
	}
	return -1
}

func (n *naive) check(c waitgraph.Cycle) error {
	seen := make(map[string]bool)
	for i, e := range c {
		w := n.waits[e.Wait]
		need := w.Needs[e.Need]
		next := n.waits[c[(i+1)%len(c)].Wait].Actor
		switch {
		case !n.stuck(w.Actor) || seen[w.Actor]:
			return fmt.Errorf("%q is not stuck, or comes twice", w.Actor)
		case n.met(need):
			return fmt.Errorf("%q does not wait for this", w.Actor)
		case need.Holders[e.Holder].Actor != next:
			return fmt.Errorf("%q does not wait for %q", w.Actor, next)
		}
		seen[w.Actor] = true
	}
	first := n.waits[c[0].Wait].Actor
	if want := n.reach(first, first); len(c) != want {
		return fmt.Errorf("a circle of %d, there is one of %d", len(c), want)
	}
	return nil
}
