package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// patience is how long a node lets its caller wait for an answer that does not come, as a Redis store does.
const patience = time.Second

// lastCalls is how long calls may be under way when a test is over.
const lastCalls = 10 * time.Second

// fate is what becomes of one call of a node.
type fate struct {
	refuse    bool          // nothing is done, and that is told at once
	says      error         // nothing is done, and this is told in time
	before    time.Duration // until it is executed
	after     time.Duration // until the answer is there
	noRequest bool          // it is never executed
	noReply   bool          // it is executed, and that is not told
}

// node is a member in memory with faults, as one replica reaches it. Its calls take time, also those that are started.
// Those that take or end holds keep their order (line_test.go).
type node struct {
	*server
	line line
}

// server is what all replicas share of a member.
type server struct {
	*memstore.Store
	hasty bool // its clock is 1 % fast

	mu           sync.Mutex // guards the fields below
	fate         func(op string) fate
	since        time.Time // when it lost its data
	lost         bool
	losesNotices bool                // nothing is heard of it, whether or not that is known
	ears         []func(lock.Notice) // of those who listen or watch
	calls        map[string]int
}

func newNode() *node { return &node{server: &server{Store: memstore.New(), calls: map[string]int{}}} }

// choose has calls meet a fate from now on.
func (n *node) choose(f func(op string) fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fate = f
}

// becomes has all calls meet the same fate.
func (n *node) becomes(f fate) { n.choose(func(string) fate { return f }) }

// lag has all answers come so long after the call.
func (n *node) lag(d time.Duration) { n.becomes(fate{before: d / 2, after: d - d/2}) }

var (
	down   = fate{refuse: true}
	silent = fate{noRequest: true}
)

// restart loses all data.
func (n *node) restart() {
	n.mu.Lock()
	n.since, n.lost = time.Now(), true
	n.mu.Unlock()
	n.Store.Lose()
}

// DataLoss implements the interface that a store offers to tell of that.
func (n *node) DataLoss() (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.since, n.lost
}

func (n *node) next(op string) fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[op]++
	if n.fate == nil {
		return fate{}
	}
	return n.fate(op)
}

func (n *node) called(op string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[op]
}

// meet makes a call meet its fate. Nobody waits longer than patience; the call goes on.
func meet[T any](ctx context.Context, c call, do func() (T, error)) (T, error) {
	f := c.fate
	switch {
	case f.refuse:
		c.over()
		return *new(T), lock.ErrUnavailable
	case f.noRequest:
		c.over()
		pause(ctx, patience)
		return *new(T), lock.ErrOutcomeUnknown
	}
	type answer struct {
		v   T
		err error
	}
	told := make(chan answer, 1)
	go func() {
		time.Sleep(f.before)
		a := answer{err: f.says}
		done := c.carryOut(func() {
			if a.err == nil {
				a.v, a.err = do()
			}
		})
		if time.Sleep(f.after); done && !f.noReply {
			told <- a
		}
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case a := <-told:
		return a.v, a.err
	case <-t.C:
	case <-ctx.Done():
	}
	c.over()
	return *new(T), lock.ErrOutcomeUnknown
}

// meetOnce is meet for a call that is not executed when its caller has given up.
func meetOnce[T any](ctx context.Context, n *node, op string, do func() (T, error)) (T, error) {
	begun := time.Now()
	return meet(ctx, n.begin(op), func() (T, error) {
		if time.Since(begun) >= patience {
			return *new(T), lock.ErrUnavailable
		}
		return do()
	})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// sooner is when a time is over by the clock of a node, and later what that counts in a time.
func (n *node) sooner(d time.Duration) time.Duration {
	if n.hasty {
		return d * 100 / 101
	}
	return d
}

func (n *node) later(d time.Duration) time.Duration {
	if n.hasty {
		return d * 101 / 100
	}
	return d
}

// begun is meet for a call that is started.
func begun[R, T any](at call, start func(R, func(T, error)), r R, done func(T, error)) {
	ctx := context.Background()
	go func() { done(meet(ctx, at, func() (T, error) { return lock.Await(ctx, start, r) })) }()
}

func (n *node) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	c.TTL = n.sooner(c.TTL)
	begun(n.begin("acquire", c.Name), n.Store.StartAcquire, c, done)
}

func (n *node) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if r.Next != nil {
		next := *r.Next
		next.TTL = n.sooner(next.TTL)
		r.Next = &next
	}
	begun(n.begin("release", r.Name), n.Store.StartRelease, r, done)
}

func (n *node) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	r.TTL = n.sooner(r.TTL)
	begun(n.begin("extend", r.Name), n.Store.StartExtend, r,
		func(left time.Duration, err error) { done(n.later(left), err) })
}

func (n *node) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	cs = slices.Clone(cs)
	var names []string
	for i := range cs {
		cs[i].TTL = n.sooner(cs[i].TTL)
		names = append(names, cs[i].Name)
	}
	return meet(ctx, n.begin("acquire", names...),
		func() ([]lock.Grant, error) { return n.Store.AcquireAll(context.Background(), cs) })
}

func (n *node) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	return meet(ctx, n.begin("raise", c.Name),
		func() (lock.Fence, error) { return n.Store.Raise(context.Background(), c) })
}

func (n *node) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].TTL = n.sooner(rs[i].TTL)
	}
	results, err := meet(ctx, n.begin("renew"), func() ([]error, error) {
		results := make([]error, len(rs))
		n.Store.Renew(context.Background(), rs, func(i int, err error) { results[i] = err })
		return results, nil
	})
	for i := range rs {
		if err != nil {
			done(i, err)
		} else {
			done(i, results[i])
		}
	}
}

func (n *node) Shorten(ctx context.Context, r lock.Renewal) error {
	r.TTL = n.sooner(r.TTL)
	_, err := meetOnce(ctx, n, "shorten", func() (int, error) { return 0, n.Store.Shorten(context.Background(), r) })
	return err
}

func (n *node) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	return meetOnce(ctx, n, "force",
		func() (bool, error) { return n.Store.ForceRelease(context.Background(), name, kind) })
}

func (n *node) Look(ctx context.Context, name string) (lock.State, error) {
	return meet(ctx, n.begin("look"), func() (lock.State, error) { return n.Store.Look(context.Background(), name) })
}

func (n *node) See(ctx context.Context, name string) (lock.Seen, error) {
	return meet(ctx, n.begin("see"), func() (lock.Seen, error) { return n.Store.See(context.Background(), name) })
}

func (n *node) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	_, err := meet(ctx, n.begin("take session"), func() (int, error) {
		return 0, n.Store.TakeSession(context.Background(), r, ttl)
	})
	return err
}

func (n *node) EndSession(ctx context.Context, id string, epoch uint64) error {
	_, err := meet(ctx, n.begin("end session"), func() (int, error) {
		return 0, n.Store.EndSession(context.Background(), id, epoch)
	})
	return err
}

func (n *node) ForceEndSession(ctx context.Context, id string) (bool, error) {
	return meet(ctx, n.begin("force end session"), func() (bool, error) {
		return n.Store.ForceEndSession(context.Background(), id)
	})
}

func (n *node) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		_, err := meet(context.Background(), n.begin("keep session"), func() (int, error) {
			told := make(chan error, 1)
			n.Store.StartKeepSession(k, func(err error) { told <- err })
			return 0, <-told
		})
		done(err)
	}()
}

func (n *node) List(ctx context.Context, prefix, cursor string, size int) (page []lock.State, next string, err error) {
	page, err = meet(ctx, n.begin("list"), func() (page []lock.State, err error) {
		page, next, err = n.Store.List(context.Background(), prefix, cursor, size)
		return page, err
	})
	return page, next, err
}

func (n *node) Probe(ctx context.Context) (string, error) {
	return meet(ctx, n.begin("probe"), func() (string, error) {
		since, _ := n.DataLoss()
		return fmt.Sprint("node ", since.UnixNano()), nil
	})
}

// has says who holds a name there.
func (n *node) has(name string) lock.Owner {
	st, _ := n.Store.Look(context.Background(), name)
	return st.Owner
}

// ear is one that hears of a node, unless that loses its notices.
func (n *node) ear(notify func(lock.Notice)) func(lock.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ears = append(n.ears, notify)
	return func(notice lock.Notice) {
		n.mu.Lock()
		lost := n.losesNotices
		n.mu.Unlock()
		if !lost {
			notify(notice)
		}
	}
}

func (n *node) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return n.Store.Watch(name, n.ear(notify))
}

func (n *node) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	return n.Store.Listen(name, kind, n.ear(notify))
}

// says tells all who listen or watch.
func (n *node) says(what lock.What) {
	n.mu.Lock()
	ears := slices.Clone(n.ears)
	n.mu.Unlock()
	for _, notify := range ears {
		notify(lock.Notice{What: what})
	}
}

// away has all calls refused from now on, and nothing heard.
func (n *node) away() {
	n.becomes(down)
	n.says(lock.NoticeDeaf)
}

// newcomer is a node that can be marked as new. The mark is lost with the data.
type newcomer struct {
	*node
	marked time.Time // as it has been since then, if it has not lost its data since
}

func (n newcomer) Marked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost && n.since.Equal(n.marked)
}

func (n newcomer) ConfirmNew(ctx context.Context) error {
	_, err := meet(ctx, n.begin("confirm"), func() (int, error) { return 0, nil })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = n.lost && err != nil
	return err
}

const unary = lock.Owner("00000000-0000-0000-0000-000000000000" + lock.UnarySuffix)
