package arbiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// model is a scene with a store that knows who holds the name, and what must be true of every decision.
type model struct {
	*scene
	t       *testing.T
	r       *rand.Rand
	kinds   []lock.Kind
	all     []*request // in the order of their arrival
	ended   map[string]int
	foreign bool // somebody elsewhere holds the name
	holders map[*request]bool
	next    map[*request]*request // who is being released, and to whom
	trace   []string
}

// TestRandomRequests has requests of each kind, and answers in any order.
func TestRandomRequests(t *testing.T) {
	for name, kinds := range map[string][]lock.Kind{
		"exclusive": {lock.Exclusive}, "fair": {lock.Fair}, "read and write": {lock.Read, lock.Read, lock.Write},
		"semaphore": {lock.Semaphore}, "all": lock.Kinds(),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range tier.Pick[uint64](60, 300) {
				m := &model{
					scene: newScene(), t: t, r: rand.New(rand.NewPCG(seed, 1)), kinds: kinds, ended: map[string]int{},
					holders: map[*request]bool{}, next: map[*request]*request{},
				}
				m.asked = m.mayAsk
				m.fatal = func(format string, a ...any) { m.wrong(format, a...) }
				for range 200 {
					m.step(m.r.IntN(20))
					m.check()
				}
				m.settle()
			}
		})
	}
}

func (m *model) wrong(format string, a ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", strings.Join(m.trace[max(0, len(m.trace)-40):], "\n"), fmt.Sprintf(format, a...))
}

// mayAsk checks that one may be asked for: nobody here holds the name alone, and none that came earlier waits for
// nothing.
func (m *model) mayAsk(r *request) {
	if r.Asking() || r.Answered() {
		m.wrong("%s is asked for, but is %v", r.name, stateOf(&r.Waiter))
	}
	for _, o := range m.all {
		if o.holds && !o.Claim.Kind.Shared() && r.Claim.Kind != lock.Semaphore {
			m.wrong("%s is asked for while %s holds it alone", r.name, o.name)
		}
		if o == r {
			return
		}
		if o.Waits() && !o.Asking() && !slices.Contains(m.kinds, lock.Fair) { // among fair ones the store decides
			m.wrong("%s is asked for before %s", r.name, o.name)
		}
	}
}

// free says whether the store can grant a kind.
func (m *model) free(k lock.Kind) bool {
	for o := range m.holders {
		if o.Claim.Kind != k || !k.Shared() {
			return false
		}
	}
	return !m.foreign && (k != lock.Semaphore || len(m.holders) < 3)
}

// answer is what the store says for one that is asked for.
func (m *model) answer(r *request, failing int) {
	switch {
	case m.r.IntN(100) < failing:
		m.answered(r, lock.ErrUnavailable)
	case m.free(r.Claim.Kind):
		m.holders[r] = !r.Answered() // else it is undone at once
		if r.Answered() {
			delete(m.holders, r)
		}
		m.answered(r, nil)
	default:
		m.answered(r, &lock.HeldError{
			RetryAfter: time.Duration(m.r.IntN(30000)) * time.Millisecond, Ahead: m.r.IntN(3),
			HeldBy: "x",
		})
	}
}

func (m *model) step(what int) {
	q := m.of["job"]
	asking, holding := m.some(func(r *request) bool { return r.Asking() && !m.handing(r) }),
		m.some(func(r *request) bool { return r.holds })
	switch {
	case what < 5:
		m.come()
	case what < 10 && asking != nil:
		m.answer(asking, 20)
	case what < 13 && holding != nil:
		m.release(holding)
	case what == 13 && q.keeping != nil:
		m.keep(q)
	case what == 14:
		if r := m.some(func(r *request) bool { return !r.Answered() && !r.holds }); r != nil {
			m.ended[r.name]++
			m.leave(r)
			m.drive(q)
		}
	case what == 15:
		m.foreign = len(m.holders) == 0 && m.r.IntN(2) == 0
	case what == 16:
		n := lock.Notice{What: lock.What(1 + m.r.IntN(4)), After: time.Duration(m.r.IntN(2000)) * time.Millisecond}
		if r := m.some(func(r *request) bool { return r.Claim.Kind == lock.Fair }); r != nil && m.r.IntN(2) == 0 {
			n.For = r.Claim.Owner
		}
		q.Heard(n, m.now)
		m.drive(q)
	default:
		m.pass(time.Duration(m.r.IntN(2000)) * time.Millisecond)
	}
}

func (m *model) some(of func(*request) bool) *request {
	var found []*request
	for _, r := range m.all {
		if of(r) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[m.r.IntN(len(found))]
}

func (m *model) come() {
	r := &request{name: fmt.Sprint("r", len(m.all)), q: m.of["job"]}
	r.Claim.Kind = m.kinds[m.r.IntN(len(m.kinds))]
	r.Claim.Permits = 1
	r.Wait = []time.Duration{0, Forever, Forever, 3 * time.Second}[m.r.IntN(4)]
	m.all = append(m.all, r)
	m.arrive(r)
}

// handing says whether somebody's release may hand the name over to one.
func (m *model) handing(r *request) bool {
	for _, next := range m.next {
		if next == r {
			return true
		}
	}
	return false
}

// release begins a release, or ends it.
func (m *model) release(r *request) {
	next, begun := m.next[r]
	if !begun {
		m.next[r] = m.scene.release(r)
		return
	}
	delete(m.next, r)
	delete(m.holders, r)
	handed := next != nil && m.r.IntN(4) > 0 && m.free(next.Claim.Kind)
	if handed && !next.Answered() {
		m.holders[next] = true
	}
	r.freed.Listeners = m.r.IntN(2)
	m.released(r, next, handed)
}

func (m *model) keep(q *driven) {
	positions := make([]string, len(q.keeping))
	for i := range positions {
		positions[i] = fmt.Sprint(i)
	}
	m.enlisted(q, positions, m.r.IntN(5) == 0)
}

// check judges what was decided.
func (m *model) check() {
	q := m.of["job"]
	for _, said := range m.said {
		word, who, _ := strings.Cut(said, " ")
		if who, _, _ = strings.Cut(who, ":"); word == "grant" || word == "refuse" {
			m.ended[who]++
		}
	}
	m.trace, m.said = append(m.trace, m.said...), nil
	n, behind, follow := 0, 0, 0
	for w := range q.All() {
		n++
		if w.follows {
			follow++
			m.checkFollower(q, w)
		}
		if w.counted {
			behind++
		} else if w.Waits() {
			m.wrong("%s waits and keeps nobody behind it", w.For.name)
		}
	}
	if n != q.Len() || behind != int(q.behind) || follow != int(q.follow) ||
		q.burst < 0 || q.burst > burst && !slices.Contains(m.kinds, lock.Fair) ||
		q.refusals < 0 || q.sharers < 0 {
		m.wrong("%d in the queue, %d of them keep others behind: %+v", n, behind, q.Queue)
	}
	for who, times := range m.ended {
		if times > 1 {
			m.wrong("%s was answered %d times", who, times)
		}
	}
	w := q.Head()
	if w == nil || w.Asking() || q.Blocked(w.Claim.Kind) || q.doing != nil || q.keeping != nil {
		return
	}
	if !q.running || q.until.Before(m.now) || q.until.After(m.now.Add(pollInterval)) {
		m.wrong("nobody will ask for %s: %+v", w.For.name, q)
	}
}

// checkFollower judges a try that stands behind others: the store is about to say more about those.
func (m *model) checkFollower(q *driven, w *Waiter[request]) {
	h := q.Head()
	known := !h.Asking() && !q.yield && q.fails == 0 && m.now.Before(q.tryAt)
	if w.Waits() || known && !w.Asking() && !slices.Contains(m.kinds, lock.Fair) {
		m.wrong("%s follows %s, which %v", w.For.name, h.For.name, stateOf(h))
	}
}

// settle answers and releases all there is. Then everybody is answered, once.
func (m *model) settle() {
	q := m.of["job"]
	m.foreign = false
	for n := 0; n < 2000 && !q.Idle(); n++ {
		m.pass(100 * time.Millisecond)
		if q.keeping != nil {
			m.keep(q)
		}
		for _, r := range m.all {
			switch {
			case r.Asking() && !m.handing(r):
				m.answer(r, 0)
			case r.holds:
				m.release(r)
			}
		}
		m.check()
	}
	for _, r := range m.all {
		if m.ended[r.name] != 1 {
			m.wrong("%s was answered %d times at the end: %v", r.name, m.ended[r.name], stateOf(&r.Waiter))
		}
	}
	if !q.Idle() || q.behind != 0 || q.places != nil {
		m.wrong("left: %+v", q.Queue)
	}
}
