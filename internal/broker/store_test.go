package broker_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// faults is a Store whose calls a test counts, delays and breaks.
type faults struct {
	lock.Store
	acquires, releases, looks, renewals atomic.Int64

	mu    sync.Mutex // guards the fields below
	hooks map[string]func(c call) error
	order map[string]bool // whose hooks keep the order of calls
	down  error
	deaf  bool
	ears  map[*func(lock.Notice)]bool // of those who listen
	open  map[string][]*ticket        // the calls about each name that are not over
}

// call is one call of a Store. do carries it out, and answer points to where the answer is then.
type call struct {
	verb   string // the name of the method
	arg    any
	do     func() error
	answer any
	t      *ticket // nil if it has no order
}

// onCall has the calls of a method go through a hook; nil ends that. The hook of method "" is for all.
func (f *faults) onCall(verb string, hook func(c call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hooks == nil {
		f.hooks = make(map[string]func(call) error)
	}
	delete(f.order, verb)
	if f.hooks[verb] = hook; hook == nil {
		delete(f.hooks, verb)
	}
}

// inOrder is onCall for a hook that keeps the order of calls about a name: it delays all of them alike, or by wait and
// later.
func (f *faults) inOrder(verb string, hook func(c call) error) {
	f.onCall(verb, hook)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.order == nil {
		f.order = make(map[string]bool)
	}
	f.order[verb] = true
}

// on is onCall for hooks that do not care for what is asked.
func (f *faults) on(verb string, hook func(next func() error) error) {
	f.onCall(verb, plainly(hook))
}

// plainly is a hook that does not care for what is asked.
func plainly(hook func(next func() error) error) func(call) error {
	return func(c call) error { return hook(c.do) }
}

// well ends what hooks do.
func (f *faults) well() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks, f.order = nil, nil
}

// setDown has most calls fail with an error, until it is nil.
func (f *faults) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

// setDeaf has nothing heard any more, or all again.
func (f *faults) setDeaf(deaf bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = deaf
}

func (f *faults) hears() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.deaf
}

// tell tells all who listen.
func (f *faults) tell(n lock.Notice) {
	f.mu.Lock()
	ears := slices.Collect(maps.Keys(f.ears))
	f.mu.Unlock()
	for _, ear := range ears {
		(*ear)(n)
	}
}

// through begins a listening that hears nothing while the store is deaf.
func (f *faults) through(notify func(lock.Notice), listen func(heard func(lock.Notice)) (stop func())) (stop func()) {
	f.mu.Lock()
	if f.ears == nil {
		f.ears = make(map[*func(lock.Notice)]bool)
	}
	f.ears[&notify] = true
	f.mu.Unlock()
	deaf := listen(func(n lock.Notice) {
		if f.hears() {
			notify(n)
		}
	})
	return func() {
		f.mu.Lock()
		delete(f.ears, &notify)
		f.mu.Unlock()
		deaf()
	}
}

func (f *faults) Listen(name string, k lock.Kind, notify func(lock.Notice)) (stop func()) {
	return f.through(notify, func(heard func(lock.Notice)) func() { return f.Store.Listen(name, k, heard) })
}

func (f *faults) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return f.through(notify, func(heard func(lock.Notice)) func() { return f.Store.Watch(name, heard) })
}

// ListenForced learns when it can hear again that it may have missed something.
func (f *faults) ListenForced(notify func(string)) (stop func()) {
	again := func(n lock.Notice) {
		if n.What == lock.NoticeListening {
			notify("")
		}
	}
	return f.through(again, func(func(lock.Notice)) func() {
		return f.Store.ListenForced(func(name string) {
			if f.hears() {
				notify(name)
			}
		})
	})
}

// fails is a hook with which nothing is done, and calls fail after a while.
func fails(err error, d time.Duration) func(func() error) error {
	return func(func() error) error {
		time.Sleep(d)
		return err
	}
}

// lose is a hook with which the first n calls are carried out, and after a while their replies are lost.
func lose(n int, d time.Duration) func(func() error) error {
	return func(next func() error) error {
		err := next()
		if n > 0 {
			n--
			time.Sleep(d)
			return errUnknown
		}
		return err
	}
}

// late is a hook with which calls are carried out after a while, or when the next one comes, and answered after it.
func late(d time.Duration) func(call) error {
	return func(c call) error {
		end := time.Now().Add(d)
		c.wait(d)
		err := c.do()
		time.Sleep(time.Until(end))
		return err
	}
}

// slow is a hook with which calls are carried out at once, and answered after a while.
func slow(d time.Duration) func(func() error) error {
	return func(next func() error) error {
		err := next()
		time.Sleep(d)
		return err
	}
}

// afterwards is a hook with which the first n calls are not answered, and carried out after a while, or when the next
// one comes.
func afterwards(n int, d time.Duration) func(call) error {
	return func(c call) error {
		if n--; n < 0 {
			return c.do()
		}
		c.later(d, func() { _ = c.do() })
		return errUnknown
	}
}

var errUnknown = lock.ErrOutcomeUnknown

// ask makes a call take its way.
func ask[T any](ctx context.Context, f *faults, verb string, arg any,
	do func(context.Context) (T, error),
) (T, error) {
	ctx = f.queued(ctx, verb, arg)
	t := ticketIn(ctx)
	defer t.answered()
	f.mu.Lock()
	hook, down, ordered := f.hooks[verb], f.down, f.order[verb]
	if hook == nil {
		hook, ordered = f.hooks[""], f.order[""]
	}
	f.mu.Unlock()
	if hook != nil && !ordered {
		t.end()
	}
	if _, nested := f.Store.(interface{ setDeaf(bool) }); !nested {
		carryOut := do
		do = func(ctx context.Context) (T, error) {
			t.turn()
			defer t.end()
			return carryOut(ctx)
		}
	}
	switch {
	case down != nil:
		return *new(T), down
	case hook == nil || ctx.Err() != nil:
		return do(ctx)
	}
	var mu sync.Mutex // what is carried out late is so in another goroutine
	var answer T
	err := hook(call{verb, arg, func() error {
		v, err := do(context.WithoutCancel(ctx)) // what is sent is sent
		mu.Lock()
		defer mu.Unlock()
		answer = v
		return err
	}, &answer, t})
	mu.Lock()
	defer mu.Unlock()
	return answer, err
}

type nothing = struct{}

// say is ask for a call without an answer.
func say(ctx context.Context, f *faults, verb string, arg any, do func(context.Context) error) error {
	_, err := ask(ctx, f, verb, arg, func(ctx context.Context) (nothing, error) { return nothing{}, do(ctx) })
	return err
}

// begin is ask for a call that is started.
func begin[R, T any](f *faults, verb string, r R, start func(lock.Store, R, func(T, error)), done func(T, error)) {
	ctx := f.queued(context.Background(), verb, r)
	go func() { done(carry(ctx, f, verb, r, start)) }()
}

// carry passes a call on with its ticket if the next store is one with faults as well.
func carry[R, T any](ctx context.Context, f *faults, verb string, r R, start func(lock.Store, R, func(T, error))) (
	T, error,
) {
	switch verb {
	case "Acquire":
		f.acquires.Add(1)
	case "Release":
		f.releases.Add(1)
	}
	return ask(ctx, f, verb, r, func(ctx context.Context) (T, error) {
		if inner, nested := f.Store.(*faults); nested {
			return carry(ctx, inner, verb, r, start)
		}
		return lock.Await(ctx, func(r R, done func(T, error)) { start(f.Store, r, done) }, r)
	})
}

func (f *faults) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	begin(f, "Acquire", c, lock.Store.StartAcquire, done)
}

func (f *faults) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	begin(f, "Release", r, lock.Store.StartRelease, done)
}

func (f *faults) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	begin(f, "Extend", r, lock.Store.StartExtend, done)
}

func (f *faults) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	f.acquires.Add(1)
	return ask(ctx, f, "AcquireAll", cs,
		func(ctx context.Context) ([]lock.Grant, error) { return f.Store.AcquireAll(ctx, cs) })
}

func (f *faults) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	return ask(ctx, f, "Raise", c, func(ctx context.Context) (lock.Fence, error) { return f.Store.Raise(ctx, c) })
}

func (f *faults) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	f.renewals.Add(1)
	rs = slices.Clone(rs) // what is carried out late is what was asked
	answers, err := ask(ctx, f, "Renew", rs, func(ctx context.Context) ([]error, error) {
		answers := make([]error, len(rs))
		f.Store.Renew(ctx, rs, func(i int, err error) { answers[i] = err })
		return answers, nil
	})
	for i := range rs {
		if err == nil {
			done(i, answers[i])
		} else {
			done(i, err)
		}
	}
}

func (f *faults) Shorten(ctx context.Context, r lock.Renewal) error {
	return say(ctx, f, "Shorten", r, func(ctx context.Context) error { return f.Store.Shorten(ctx, r) })
}

func (f *faults) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	return ask(ctx, f, "Enlist", name,
		func(ctx context.Context) ([]int, error) { return f.Store.Enlist(ctx, name, owners, place) })
}

func (f *faults) Leave(ctx context.Context, name string, k lock.Kind, owners []lock.Owner) error {
	return say(ctx, f, "Leave", name, func(ctx context.Context) error { return f.Store.Leave(ctx, name, k, owners) })
}

func (f *faults) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner, place time.Duration) (
	ahead int, err error,
) {
	return ask(ctx, f, "Succeed", name,
		func(ctx context.Context) (int, error) { return f.Store.Succeed(ctx, name, from, to, place) })
}

func (f *faults) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	return ask(ctx, f, "SetLimit", name,
		func(ctx context.Context) (uint32, error) { return f.Store.SetLimit(ctx, name, limit) })
}

func (f *faults) Look(ctx context.Context, name string) (lock.State, error) {
	f.looks.Add(1)
	return ask(ctx, f, "Look", name, func(ctx context.Context) (lock.State, error) { return f.Store.Look(ctx, name) })
}

func (f *faults) See(ctx context.Context, name string) (lock.Seen, error) {
	f.looks.Add(1)
	return ask(ctx, f, "Look", name, func(ctx context.Context) (lock.Seen, error) { return f.Store.See(ctx, name) })
}

func (f *faults) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	return say(ctx, f, "TakeSession", r, func(ctx context.Context) error { return f.Store.TakeSession(ctx, r, ttl) })
}

func (f *faults) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		done(say(context.Background(), f, "KeepSession", k, func(context.Context) error {
			answered := make(chan error, 1)
			f.Store.StartKeepSession(k, func(err error) { answered <- err })
			return <-answered
		}))
	}()
}

func (f *faults) EndSession(ctx context.Context, id string, epoch uint64) error {
	return say(ctx, f, "EndSession", id, func(ctx context.Context) error { return f.Store.EndSession(ctx, id, epoch) })
}

func (f *faults) ForceEndSession(ctx context.Context, id string) (bool, error) {
	return ask(ctx, f, "ForceEndSession", id, func(ctx context.Context) (bool, error) {
		return f.Store.ForceEndSession(ctx, id)
	})
}

func (f *faults) Probe(ctx context.Context) (string, error) {
	return ask(ctx, f, "Probe", nil, f.Store.Probe)
}
