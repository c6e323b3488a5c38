package deadlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

// request is who asks, and what for.
type request struct {
	actor string
	needs []need
}

func wait(actor string, needs ...need) request { return request{actor, needs} }

func one(holder string) need { return permits(1, 0, holder) }

// permits wants some of those that holders have one each of, besides spare ones.
func permits(want, spare int64, holders ...string) need {
	n := need{want: want - spare}
	for _, h := range holders {
		n.holders = append(n.holders, Hold{Actor: h})
	}
	return n
}

// graphOf leaves the requests as they are.
func graphOf(requests []request) *graph {
	var waits []Wait
	var needs [][]need
	for _, r := range requests {
		waits = append(waits, Wait{Actor: r.actor})
		needs = append(needs, slices.Clone(r.needs))
	}
	return newGraph(waits, needs)
}

// stuck says which of the requests are of stuck actors.
func stuck(requests []request) (all []bool) {
	g := graphOf(requests)
	for _, n := range g.actorOf {
		all = append(all, !g.live[n])
	}
	return all
}

func TestDeadlocksAreFoundAndNothingElse(t *testing.T) {
	for _, test := range []struct {
		name  string
		waits []request
		want  []string // the actors of each cycle
	}{
		{"nobody waits", nil, nil},
		{"two", []request{wait("a", one("b")), wait("b", one("a"))}, []string{"[a b]"}},
		{"with itself", []request{wait("a", one("a"))}, []string{"[a]"}},
		{"three, and one who waits for them", []request{
			wait("x", one("a")), wait("a", one("b")), wait("b", one("c")), wait("c", one("a")),
		}, []string{"[a b c]"}},
		{"the holder does not wait", []request{wait("a", one("b")), wait("c", one("b"))}, nil},
		{"nobody knows the holder", []request{wait("a", one("")), wait("", one("a"))}, nil},
		{"a writer waits for each of the readers", []request{
			wait("w", one("idle"), one("r")), wait("r", one("w")),
		}, []string{"[w r]"}},
		{"one of several permits comes back", []request{
			wait("a", permits(1, 0, "b", "idle")), wait("b", one("a")),
		}, nil},
		{"all permits are out for good", []request{
			wait("a", permits(1, 0, "b", "c")), wait("b", one("a")), wait("c", one("a")),
		}, []string{"[a b]"}},
		{"too few permits come back", []request{
			wait("a", permits(2, 0, "b", "idle")), wait("b", one("a")),
		}, []string{"[a b]"}},
		{"another request of the actor is granted", []request{
			wait("a", one("b")), wait("a", one("idle")), wait("b", one("a")),
		}, nil},
		{"two deadlocks", []request{
			wait("a", one("b")), wait("c", one("d")), wait("b", one("a")), wait("d", one("c")),
		}, []string{"[a b]", "[c d]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, d := range graphOf(test.waits).circles() {
				var actors []string
				for _, e := range d.edges {
					actors = append(actors, test.waits[e.request].actor)
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
	const length = 20_000
	var chain []request
	for i := range length {
		chain = append(chain, wait(strconv.Itoa(i), one(strconv.Itoa(i+1))))
	}
	if cs := graphOf(chain).circles(); len(cs) != 0 {
		t.Fatalf("%d deadlocks were found in a chain", len(cs))
	}
	chain = append(chain, wait(strconv.Itoa(length), one("0")))
	cs := graphOf(chain).circles()
	if len(cs) != 1 || len(cs[0].edges) != length+1 {
		t.Fatalf("%d deadlocks were found in a circle of %d", len(cs), length+1)
	}
}

// randomGraph has few actors, so that circles are as likely as none.
func randomGraph(r *rand.Rand) (waits []request) {
	actors := 1 + r.IntN(7)
	name := func() string {
		if n := r.IntN(actors + 2); n <= actors { // some of these do not wait
			return strconv.Itoa(n)
		}
		return ""
	}
	for range r.IntN(actors + 3) {
		w := request{actor: name()}
		for range 1 + r.IntN(2) {
			var n need
			for range 1 + r.IntN(3) {
				h := Hold{Actor: name(), Kind: lock.Semaphore, Permits: 1 + r.Uint32N(2)}
				n.holders = append(n.holders, h)
				n.want += amount(h)
			}
			n.want -= int64(r.IntN(int(n.want) + 1)) // so much is there without them
			w.needs = append(w.needs, n)
		}
		waits = append(waits, w)
	}
	return waits
}

func TestRandomGraphsHaveTheDeadlocksOfTheReference(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 22))
	with := 0
	for i := range 20_000 {
		waits := randomGraph(r)
		found := graphOf(waits).circles()
		if err := compare(waits, found, stuck(waits)); err != nil {
			t.Fatalf("graph %d: %v\n%+v\nfound %v", i, err, waits, found)
		}
		if len(found) > 0 {
			with++
		}
	}
	if with < 1_000 || with > 19_000 {
		t.Errorf("%d of 20,000 graphs have a deadlock: they test little", with)
	}
}

// TestThePlantedBugsAreSeen has the comparison find what it is for.
func TestThePlantedBugsAreSeen(t *testing.T) {
	for name, plant := range map[string]func([]request) []request{
		"one stuck holder of permits is enough": func(waits []request) (wrong []request) {
			for _, w := range waits {
				var needs []need
				for _, n := range w.needs {
					for _, h := range n.holders {
						if n.want > 0 {
							needs = append(needs, need{want: amount(h), holders: []Hold{h}})
						}
					}
				}
				wrong = append(wrong, request{w.actor, needs})
			}
			return wrong
		},
		"only the last request of an actor counts": func(waits []request) (wrong []request) {
			last := make(map[string]int)
			for i, w := range waits {
				last[w.actor] = i
			}
			for i, w := range waits {
				if last[w.actor] == i {
					wrong = append(wrong, w)
				} else {
					wrong = append(wrong, request{"", w.needs})
				}
			}
			return wrong
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 10_000 {
				waits := randomGraph(r)
				if newNaive(waits).compareStuck(stuck(plant(waits))) != nil {
					return
				}
			}
			t.Error("nothing was seen")
		})
	}
}

// compare says in what an answer differs from that of a slow and simple search.
func compare(waits []request, found []circle, stuck []bool) error {
	n := newNaive(waits)
	if err := n.compareStuck(stuck); err != nil {
		return err
	}
	groups := make(map[int]bool)
	for _, d := range found {
		if err := n.check(d.edges); err != nil {
			return err
		}
		if err := sufficient(waits, d); err != nil {
			return err
		}
		group := n.group(waits[d.edges[0].request].actor)
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
func sufficient(waits []request, d circle) error {
	var alone []request
	for _, i := range d.requests {
		alone = append(alone, waits[i])
	}
	for i, stuck := range stuck(alone) {
		if !stuck {
			return fmt.Errorf("wait %d is not stuck by what the deadlock tells", d.requests[i])
		}
	}
	for _, e := range d.edges {
		if !slices.Contains(d.requests, e.request) {
			return fmt.Errorf("wait %d is missing", e.request)
		}
	}
	return nil
}

func (n *naive) compareStuck(stuck []bool) error {
	for i, w := range n.waits {
		if want := w.actor != "" && !n.live[w.actor]; stuck[i] != want {
			return fmt.Errorf("wait %d of %q: stuck is %t, want %t", i, w.actor, stuck[i], want)
		}
	}
	return nil
}

// naive looks at everything again and again.
type naive struct {
	waits   []request
	actors  []string // that wait
	waiting map[string]bool
	live    map[string]bool
	nexts   map[string]map[string]bool // those that a stuck actor waits for
}

func newNaive(waits []request) *naive {
	n := &naive{waits: waits, waiting: make(map[string]bool), live: make(map[string]bool)}
	for _, w := range waits {
		if w.actor != "" && !n.waiting[w.actor] {
			n.waiting[w.actor] = true
			n.actors = append(n.actors, w.actor)
		}
	}
	for more := true; more; {
		more = false
		for _, w := range waits {
			if n.stuck(w.actor) && n.grantable(w) {
				n.live[w.actor], more = true, true
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

func (n *naive) grantable(w request) bool {
	for _, need := range w.needs {
		if !n.met(need) {
			return false
		}
	}
	return true
}

func (n *naive) met(need need) bool {
	var back int64
	for _, s := range need.holders {
		if !n.stuck(s.Actor) {
			back += amount(s)
		}
	}
	return back >= need.want
}

// next are the stuck actors that a stuck actor waits for.
func (n *naive) next(actor string) map[string]bool {
	all := make(map[string]bool)
	for _, w := range n.waits {
		if w.actor != actor {
			continue
		}
		for _, need := range w.needs {
			for _, s := range need.holders {
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

func (n *naive) check(c []edge) error {
	seen := make(map[string]bool)
	for i, e := range c {
		w := n.waits[e.request]
		need := w.needs[e.need]
		next := n.waits[c[(i+1)%len(c)].request].actor
		switch {
		case !n.stuck(w.actor) || seen[w.actor]:
			return fmt.Errorf("%q is not stuck, or comes twice", w.actor)
		case n.met(need):
			return fmt.Errorf("%q does not wait for this", w.actor)
		case e.hold.Actor != next:
			return fmt.Errorf("%q does not wait for %q", w.actor, next)
		}
		seen[w.actor] = true
	}
	first := n.waits[c[0].request].actor
	if want := n.reach(first, first); len(c) != want {
		return fmt.Errorf("a circle of %d, there is one of %d", len(c), want)
	}
	return nil
}
