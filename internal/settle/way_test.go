package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/test/harness"
)

// way is a store behind one connection that keeps order. Nothing is carried out before the test says so. When the
// connection breaks, some of what is under way was carried out, in its order, and the rest never is.
type way struct {
	*memstore.Store
	told func(tell func()) // tells an outcome, now or later

	mu    sync.Mutex // guards the fields below
	queue []*command
	sent  []string // since they were read last
}

// command is what is under way. run carries it out; told tells its outcome.
type command struct {
	run    func()
	tell   func(err error) // an error, or what run found
	grants func() bool     // whether run granted something
}

// send has something under way.
func send[T any](w *way, what string, run func() (T, error), done func(T, error)) {
	var v T
	var err error
	c := &command{}
	c.run = func() { v, err = run() }
	c.tell = func(instead error) {
		if instead != nil {
			done(*new(T), instead)
			return
		}
		done(v, err)
	}
	c.grants = func() bool {
		switch v := any(v).(type) {
		case lock.Grant:
			return err == nil
		case lock.Returned:
			return err == nil && v.HandedOver != 0
		}
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, c)
	w.sent = append(w.sent, "> "+what)
}

func (w *way) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	send(w, "acquire "+string(c.Owner), func() (lock.Grant, error) {
		return lock.Await(context.Background(), w.Store.StartAcquire, c)
	}, done)
}

// AcquireAll takes one name after the other, as if they were on several servers.
func (w *way) AcquireAll(ctx context.Context, cs []lock.Claim) (gs []lock.Grant, err error) {
	for _, c := range cs {
		g, err := lock.Await(ctx, w.StartAcquire, c)
		switch {
		case err == nil:
			gs = append(gs, g)
		case len(gs) > 0:
			return nil, errors.Join(lock.ErrInVain, err)
		default:
			return nil, err
		}
	}
	return gs, nil
}

func (w *way) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	what := "release " + string(r.Owner)
	if r.Keep > 0 {
		what += " keep " + strconv.FormatUint(uint64(r.Keep), 10)
	}
	if r.Fence > 0 {
		what += " fence " + strconv.FormatUint(uint64(r.Fence), 10)
	}
	if r.Next != nil {
		what += " to " + string(r.Next.Owner)
	}
	send(w, what, func() (lock.Returned, error) { return lock.Await(context.Background(), w.Store.StartRelease, r) }, done)
}

// take takes so many commands from under way, all of them with -1.
func (w *way) take(n int) []*command {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < 0 || n > len(w.queue) {
		n = len(w.queue)
	}
	cs := slices.Clone(w.queue[:n])
	w.queue = slices.Delete(w.queue, 0, n)
	return cs
}

// underWay is how many commands are.
func (w *way) underWay() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// sentLately is what was sent since it was called last.
func (w *way) sentLately() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// deliver carries out so many commands and tells their outcomes.
func (w *way) deliver(n int) {
	for _, c := range w.take(n) {
		c.run()
		w.told(func() { c.tell(nil) })
	}
}

// lose breaks the connection: so many commands were carried out, and the outcome of all is unknown.
func (w *way) lose(n int) {
	all := w.take(-1)
	for i, c := range all {
		if i < n {
			c.run()
		}
	}
	for _, c := range all {
		w.told(func() { c.tell(fmt.Errorf("%w: the connection broke", lock.ErrOutcomeUnknown)) })
	}
}

// refuse does not carry out the first command, and says so.
func (w *way) refuse(err error) {
	for _, c := range w.take(1) {
		c.tell(err)
	}
}

// few carries out the first command, and tells that too few replicas have it.
func (w *way) few() {
	for _, c := range w.take(1) {
		c.run()
		c.tell(lock.ErrNotReplicated)
	}
}

// newSettled is a settled way.
func newSettled(t testing.TB, cfg Config) (*Store, *way) {
	t.Helper()
	w := &way{Store: memstore.New(), told: func(tell func()) { tell() }}
	s, err := New(w, cfg, zap.NewNop(), nil)
	must(t, err)
	t.Cleanup(s.Close)
	return s, w
}

var must = harness.Must // ends the test at an error
