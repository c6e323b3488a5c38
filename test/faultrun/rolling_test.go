package faultrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// load is who uses locks while the replicas are restarted.
type load struct {
	lockers int // lock and unlock, half of them names of their own
	keepers int // sessions with perSession locks each
	lines   int // fair locks
	waiters int // of each line
	readers int
	rounds  int           // how often each replica is restarted
	pace    time.Duration // for how long each of a line holds
	rest    time.Duration // that lockers take between two locks
	tool    string        // lockctl; empty = without it
}

var (
	shortLoad = load{
		lockers: 16, keepers: 10, lines: 1, waiters: 30, readers: 10, rounds: 1, pace: 100 * time.Millisecond,
		rest: 10 * time.Millisecond,
	}
	fullLoad = load{
		lockers: 64, keepers: 50, lines: 4, waiters: 50, readers: 50, rounds: 2, pace: 300 * time.Millisecond,
		rest: 10 * time.Millisecond,
	}
)

// rollout is a rolling restart under load.
type rollout struct {
	*world
	load load
	over chan struct{} // closed when all replicas are restarted
	work sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	errs    []error
	calls   int
	longest time.Duration // that somebody who is in nobody's way waited
}

func (r *rollout) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) < 20 {
		r.errs = append(r.errs, fmt.Errorf(format, args...))
	}
}

// took counts a call. alone says that only lockd can have held it up.
func (r *rollout) took(d time.Duration, alone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if alone {
		r.longest = max(r.longest, d)
	}
}

func (r *rollout) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// roll restarts all replicas, one after the other, while clients use locks. An error is what a client should not have
// seen.
func (w *world) roll(l load) error {
	w.t.Helper()
	r := &rollout{world: w, load: l, over: make(chan struct{})}
	k := w.keepers(l.keepers)
	lines := r.form()
	r.begin()
	if l.tool != "" {
		r.work.Go(r.useTool)
	}
	var stops []time.Duration
	for range l.rounds {
		for i := range w.replicas {
			took, err := w.restart(i)
			if err != nil {
				r.fail("%w", err)
			}
			stops = append(stops, took)
		}
	}
	close(r.over)
	r.work.Wait()
	kept := errors.Join(k.verify(), k.give())
	for _, line := range lines {
		r.inOrder(line)
	}
	w.t.Logf("the stops took %v; %d calls, the longest %v; %s", stops, r.calls, r.longest, howLong(w.moves()))
	return errors.Join(append(r.errs, w.noneCut(), kept, w.check())...)
}

// begin has clients lock and unlock, and read, until all is over.
func (r *rollout) begin() {
	for i := range r.load.lockers {
		name := fmt.Sprint("own ", i)
		if i%2 == 1 {
			name = fmt.Sprint("shared ", i%8)
		}
		r.work.Go(func() { r.use(fmt.Sprint("locker ", i), i, name, i%2 == 0, 0, client.Exclusive) })
	}
	for i := range r.load.readers {
		r.work.Go(func() {
			r.use(fmt.Sprint("reader ", i), i, fmt.Sprint("read ", i%5), true, 50*time.Millisecond, client.Read)
		})
	}
}

// use locks and unlocks a name until all is over. alone says that only lockd can hold it up.
func (r *rollout) use(id string, at int, name string, alone bool, stay time.Duration, kind client.Kind) {
	m, ctx := r.dial(id, at), r.t.Context()
	for !r.isOver() {
		begun := time.Now()
		l, err := m.lock(ctx, name, client.As(kind))
		if err != nil {
			r.fail("%s: %w", m.id, err)
			continue
		}
		r.took(time.Since(begun), alone)
		time.Sleep(stay)
		begun = time.Now()
		if err := l.give(ctx); err != nil {
			r.fail("%s: %w", m.id, err)
		}
		r.took(time.Since(begun), alone)
		time.Sleep(r.load.rest) // without it this is a load for the machine only
	}
}

// useTool has lockctl take a lock and release it, by unary calls.
func (r *rollout) useTool() {
	for !r.isOver() {
		var lease struct {
			ID string `json:"lease_id"`
		}
		if out := r.runTool("acquire", "unary", "--lease", "1m"); json.Unmarshal([]byte(out), &lease) == nil {
			r.runTool("release", "unary", lease.ID)
		}
	}
}

// runTool returns what lockctl wrote.
func (r *rollout) runTool(args ...string) string {
	begun := time.Now()
	p := proctest.Start(r.t, r.load.tool, []string{"LOCKD_ADDR=" + strings.Join(r.at, ",")}, args...)
	if p.Code() != 0 {
		r.fail("lockctl %q: code %d, %s", args, p.Code(), p.Stderr.String())
	}
	r.took(time.Since(begun), false)
	return p.Stdout.String()
}

// line are those who wait for one fair lock, in the order in which they came.
type line struct {
	name   string
	fences []uint64
	who    []*member
}

// form has lines formed, and begins to serve them.
func (r *rollout) form() (lines []*line) {
	r.t.Helper()
	for n := range r.load.lines {
		l := &line{
			name: fmt.Sprint("line ", n), fences: make([]uint64, r.load.waiters), who: make([]*member, r.load.waiters),
		}
		lines = append(lines, l)
		var members []*member
		for i := range max(1, r.load.waiters/5) {
			members = append(members, r.dial(fmt.Sprintf("waiter %d of %s", i, l.name), i%3))
		}
		first, err := members[0].lock(r.t.Context(), l.name, client.As(client.Fair))
		harness.Must(r.t, err)
		for i := range l.fences {
			r.join(l, i, members[i%len(members)])
		}
		r.work.Go(func() {
			if err := first.give(r.t.Context()); err != nil {
				r.fail("the first of %s: %w", l.name, err)
			}
		})
	}
	return lines
}

// join has somebody join a line, and returns when he is in it.
func (r *rollout) join(l *line, i int, m *member) {
	queued := make(chan struct{})
	first := sync.OnceFunc(func() { close(queued) })
	l.who[i] = m
	r.work.Go(func() {
		h, err := m.lock(r.t.Context(), l.name, client.As(client.Fair), client.OnQueued(func(int) { first() }))
		if err != nil {
			r.fail("%s, the %d. in %s: %w", m.id, i, l.name, err)
			return
		}
		l.fences[i] = h.Fence()
		select {
		case <-time.After(r.load.pace):
		case <-r.over: // the others need not wait any more
		}
		if err := h.give(context.Background()); err != nil {
			r.fail("%s, the %d. in %s: %w", m.id, i, l.name, err)
		}
	})
	harness.Soon(r.t, "somebody waits in line", queued)
}

// inOrder checks that those of a line were served in their order.
func (r *rollout) inOrder(l *line) {
	if slices.IsSorted(l.fences) && !slices.Contains(l.fences, 0) {
		return
	}
	var wrong []string
	for i := 1; i < len(l.fences); i++ {
		if l.fences[i] <= l.fences[i-1] {
			wrong = append(wrong, fmt.Sprintf("the %d. (%s) before the %d. (%s)", i, l.who[i].id, i-1, l.who[i-1].id))
		}
	}
	r.fail("%s was not served in order: %s; with the fences %v", l.name, strings.Join(wrong, ", "), l.fences)
}

// All replicas are restarted one after the other, under load. Nobody loses anything, no call fails, no stream breaks,
// and lines keep their order.
func TestARollingRestartIsNotNoticed(t *testing.T) {
	onEachStore(t, 30*time.Second, func(w *world) {
		l := pickLength(shortLoad, fullLoad)
		var err error
		if l.tool, err = harness.Build("lockctl"); err != nil {
			t.Fatal(err)
		}
		if w.rules.votes { // there are no fair locks
			l.lines = 0
		}
		w.must(w.roll(l))
	})
}
