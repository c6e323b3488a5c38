package deadlock

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/test/harness"
)

// town is a world in which actors take and release locks while replicas are being asked. Each lock is known at one
// replica, and so is each request. It moves on with each question that a replica answers, so answers are of different
// moments.
type town struct {
	mu      sync.Mutex
	r       *rand.Rand
	ordered bool // actors take locks in their order only, so there never is a deadlock
	last    int
	actors  []*actor
	held    map[int]*actor
	fence   map[int]int
	told    []Wait // by the last answers, for the plant
	holds   []Hold
}

type actor struct {
	name  string
	holds []int
	wants int // -1 if it does not wait
	id    int // of its request
}

func newTown(seed uint64, actors int, ordered bool) *town {
	t := &town{r: rand.New(rand.NewPCG(seed, 7)), ordered: ordered, held: make(map[int]*actor), fence: make(map[int]int)}
	for i := range actors {
		t.actors = append(t.actors, &actor{name: fmt.Sprintf("actor-%d", i), wants: -1})
	}
	return t
}

// stepLocked has somebody do something: ask for a lock, get what it waits for, or release what it has.
func (t *town) stepLocked() {
	a := t.actors[t.r.IntN(len(t.actors))]
	locks := len(t.actors)
	switch {
	case a.wants >= 0 && t.held[a.wants] == nil:
		t.fence[a.wants]++
		t.held[a.wants] = a
		a.holds, a.wants = append(a.holds, a.wants), -1
	case a.wants >= 0:
	case len(a.holds) > 0 && t.r.IntN(3) == 0:
		for _, l := range a.holds {
			delete(t.held, l)
		}
		a.holds = nil
	default:
		want := t.r.IntN(locks)
		if t.held[want] == a || t.ordered && len(a.holds) > 0 && want <= slices.Max(a.holds) {
			return
		}
		t.last++
		a.wants, a.id = want, t.last
	}
}

// stuckLocked says who is in a deadlock, as one who sees everything knows.
func (t *town) stuckLocked() map[string]bool {
	stuck := make(map[string]bool)
	for _, a := range t.actors {
		at := a
		for range len(t.actors) + 1 {
			if at == nil || at.wants < 0 {
				at = nil
				break
			}
			at = t.held[at.wants]
		}
		if at != nil {
			stuck[a.name] = true
		}
	}
	return stuck
}

// half is what one of two replicas knows.
type half struct {
	*town
	n int
}

func (h half) here(i int) bool { return i%2 == h.n }

func (h half) move() {
	for range h.r.IntN(6) {
		h.stepLocked()
	}
}

func (h half) Waits(actors []string, _ time.Duration, most int) (waits []Wait, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.move()
	for i, a := range h.actors {
		if h.here(i) && a.wants >= 0 && (len(actors) == 0 || slices.Contains(actors, a.name)) && len(waits) < most {
			w := Wait{
				Actor: a.name, Owner: lock.Owner(fmt.Sprintf("request-%d", a.id)), Age: time.Duration(1 + h.last - a.id),
				Wants: []Want{{Name: fmt.Sprint(a.wants), Kind: lock.Exclusive}},
			}
			if len(actors) > 0 {
				w.About = &About{Client: a.name}
			}
			waits = append(waits, w)
		}
	}
	if len(actors) == 0 {
		h.told = append(h.told, waits...)
	}
	return waits, false
}

func (h half) AnyWaits(time.Duration) bool { return true }

func (h half) Holds(name string, _ int) (holds []Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.move()
	for l, a := range h.held {
		if fmt.Sprint(l) == name && h.here(slices.Index(h.actors, a)) {
			holds = append(holds, Hold{
				Actor: a.name, Name: name, Kind: lock.Exclusive, Owner: lock.Owner(a.name),
				Fence: lock.Fence(h.fence[l]), //nolint:gosec // small
			})
		}
	}
	h.holds = append(h.holds, holds...)
	return holds
}

func (h half) IsWaiting(lock.Owner) bool { return false }

func (h half) Fail(lock.Owner, *Error) bool { return false }

// looks has two replicas look so often while the town moves, and calls f with what was found, and with what one round
// of questions alone would have told.
func looks(t *testing.T, h *town, n int, f func(found []Deadlock, oneRound int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var fs []*Finder
		for i := range 2 {
			f := New(Config{ID: fmt.Sprint(i), Store: store, Local: half{h, i}, Log: zap.NewNop()})
			defer f.Leave()
			fs = append(fs, f)
		}
		for i := range n {
			h.mu.Lock()
			h.told, h.holds = nil, nil
			h.mu.Unlock()
			found, err := fs[i%2].Look(t.Context())
			harness.Must(t, err)
			h.mu.Lock()
			waits, holds := ordered([]Answer{{Waits: h.told, Holds: h.holds}})
			f(found.Deadlocks, len(facts{waits: waits, holds: holds}.graph().circles()))
			h.mu.Unlock()
			time.Sleep(time.Second)
		}
	})
}

// Who takes locks in one order is never in a deadlock, whatever a look sees of different moments. The plant, which
// believes the first answers, tells of some.
func TestNoDeadlockIsToldThatNeverWas(t *testing.T) {
	planted := 0
	looks(t, newTown(3, 8, true), 3000, func(found []Deadlock, oneRound int) {
		if len(found) > 0 {
			t.Fatalf("got %+v, there is none", found)
		}
		planted += oneRound
	})
	if planted == 0 {
		t.Error("no look saw what could be taken for a deadlock: it shows nothing")
	}
}

// Everybody who is told to be in a deadlock is in one, and a deadlock that lasts is told.
func TestDeadlocksThatAreToldAreThere(t *testing.T) {
	for seed := range uint64(60) {
		h := newTown(seed, 10, false)
		var before map[string]bool
		looks(t, h, 30, func(found []Deadlock, _ int) {
			stuck := h.stuckLocked()
			for _, d := range found {
				for _, m := range d.Members {
					if !stuck[m.About.Client] {
						t.Fatalf("%+v is told, %s does not wait for ever", d, m.About.Client)
					}
				}
			}
			if len(before) > 0 && len(found) == 0 {
				t.Fatalf("%v wait for each other, and nothing is told", slices.Collect(maps.Keys(before)))
			}
			before = stuck
		})
	}
}
