package broker_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// ticket is the turn of a call. What a replica asks a store about a name is carried out in the order in which it was
// asked: what is under way is so at the latest when the next call about the name is.
type ticket struct {
	hurry    chan struct{} // closed when the next one has come
	executed chan struct{} // closed when it was carried out, or never will be, or keeps no order
	hurries  sync.Once
	ends     sync.Once

	mu     sync.Mutex // guards the fields below
	before []*ticket  // those that may not be carried out yet
	later  bool       // it is carried out when it was answered
}

type ticketKey struct{}

// queued gives a call its turn among those that come this way, unless it has one.
func (f *faults) queued(ctx context.Context, verb string, arg any) context.Context {
	names := orderedBy(verb, arg)
	if ctx.Value(ticketKey{}) != nil || len(names) == 0 {
		return ctx
	}
	t := &ticket{hurry: make(chan struct{}), executed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = make(map[string]*ticket)
	}
	for _, name := range names {
		if before := f.last[name]; before != nil {
			t.before = append(t.before, before)
		}
		f.last[name] = t
	}
	return context.WithValue(ctx, ticketKey{}, t)
}

// orderedBy are the names whose calls keep the order of one. Renewals and looks go another way.
func orderedBy(verb string, arg any) (names []string) {
	switch arg := arg.(type) {
	case lock.Claim:
		return []string{arg.Name}
	case []lock.Claim:
		for _, c := range arg {
			names = append(names, c.Name)
		}
	case lock.Return:
		return []string{arg.Name}
	case lock.Renewal:
		return []string{arg.Name}
	case string:
		if slices.Contains([]string{"Enlist", "Leave", "Succeed"}, verb) {
			return []string{arg}
		}
	}
	return names
}

func ticketIn(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// turn waits until those before are carried out.
func (t *ticket) turn() {
	if t == nil {
		return
	}
	t.mu.Lock()
	before := t.before
	t.mu.Unlock()
	for _, b := range before {
		b.hurries.Do(func() { close(b.hurry) })
		<-b.executed
		b.turn() // it may never have been its turn
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before = nil
}

// end notes that it was carried out.
func (t *ticket) end() {
	if t != nil {
		t.ends.Do(func() { close(t.executed) })
	}
}

// answered is the end of a call that is not carried out later.
func (t *ticket) answered() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.later {
		t.end()
	}
}

// wait passes time until a call is carried out: less if the next one has come.
func (c call) wait(d time.Duration) {
	if c.t == nil {
		time.Sleep(d)
		return
	}
	select {
	case <-time.After(d):
	case <-c.t.hurry:
	}
}

// later has a call be carried out after a while, whose answer nobody hears.
func (c call) later(d time.Duration, do func()) {
	if c.t != nil {
		c.t.mu.Lock()
		c.t.later = true
		c.t.mu.Unlock()
	}
	go func() {
		defer c.t.end()
		c.wait(d)
		do()
	}()
}
