package broker_test

import (
	"context"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// ticket is the turn of a call. The calls of a replica about a name are carried out in the order in which they were
// made: one that is under way is carried out at the latest when the next one is.
type ticket struct {
	f        *faults
	names    []string
	before   []*ticket     // those that may not be carried out yet
	over     bool          // it was carried out, or never will be, or keeps no order; guarded by f.mu, as all below
	later    bool          // it is carried out when it was answered
	hurried  bool          // the next one has come
	hurry    chan struct{} // closed then; nil while it does not wait
	executed chan struct{} // closed when it is over; nil while nobody waits for that
}

type ticketKey struct{}

// queued gives a call its turn among those that come this way, unless it has one.
func (f *faults) queued(ctx context.Context, verb string, arg any) context.Context {
	names := orderedBy(verb, arg)
	if ctx.Value(ticketKey{}) != nil || len(names) == 0 {
		return ctx
	}
	t := &ticket{f: f, names: names}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(map[string][]*ticket)
	}
	for _, name := range names {
		t.before = append(t.before, f.open[name]...)
		f.open[name] = append(f.open[name], t)
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
	t.f.mu.Lock()
	var under []chan struct{}
	for _, b := range t.before {
		if b.over {
			continue
		}
		if b.hurried = true; b.hurry != nil {
			close(b.hurry)
			b.hurry = nil
		}
		if b.executed == nil {
			b.executed = make(chan struct{})
		}
		under = append(under, b.executed)
	}
	t.before = nil
	t.f.mu.Unlock()
	for _, executed := range under {
		<-executed
	}
}

// end notes that it is over.
func (t *ticket) end() {
	if t == nil {
		return
	}
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.endLocked()
}

func (t *ticket) endLocked() {
	if t.over {
		return
	}
	t.over = true
	if t.executed != nil {
		close(t.executed)
	}
	for _, name := range t.names {
		t.f.open[name] = slices.DeleteFunc(t.f.open[name], func(o *ticket) bool { return o == t })
		if len(t.f.open[name]) == 0 {
			delete(t.f.open, name)
		}
	}
}

// answered is the end of a call that is not carried out later.
func (t *ticket) answered() {
	if t == nil {
		return
	}
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if !t.later {
		t.endLocked()
	}
}

// wait passes time until a call is carried out: less if the next one has come. A timer that is due at once would be
// run by whoever asks it, which the race detector of Go 1.26 does not always survive in a bubble.
func (c call) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	if c.t == nil {
		time.Sleep(d)
		return
	}
	c.t.f.mu.Lock()
	if c.t.hurried {
		c.t.f.mu.Unlock()
		return
	}
	hurry := make(chan struct{})
	c.t.hurry = hurry
	c.t.f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	}
}

// later carries a call out after a while. Nobody hears the answer.
func (c call) later(d time.Duration, do func()) {
	if c.t != nil {
		c.t.f.mu.Lock()
		c.t.later = true
		c.t.f.mu.Unlock()
	}
	go func() {
		defer c.t.end()
		c.wait(d)
		do()
	}()
}
