package admission

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// callTime is how long a unary call waits to be let in.
const callTime = time.Second

// gate bounds the unary calls of one tenant that are at the store at a time. All clients share one way to the store,
// in the order in which they ask: without a bound one connection could put seconds of work in front of everybody
// else's. It exists while calls of the tenant are under way or wait.
type gate struct {
	slots chan struct{} // has a value for each call under way
	users int           // guarded by Desk.mu
}

// Call waits until one more unary call of a tenant may go to the store. Call done after it.
func (d *Desk) Call(ctx context.Context, t lock.Tenant) (done func(), err error) {
	if err := d.Work(ctx, t, Unary, callTime); err != nil {
		return nil, err
	}
	most := d.limits.CallsPerAddress
	if most == 0 {
		return func() {}, nil
	}
	g := d.enter(t)
	late := time.NewTimer(callTime)
	defer late.Stop()
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; d.leave(t, g) }, nil
	case <-late.C:
		err = d.denied("calls_per_address", most)
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.leave(t, g)
	return nil, err
}

func (d *Desk) enter(t lock.Tenant) *gate {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.calls[t]
	if g == nil {
		g = &gate{slots: make(chan struct{}, d.limits.CallsPerAddress)}
		d.calls[t] = g
	}
	g.users++
	return g
}

func (d *Desk) leave(t lock.Tenant, g *gate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(d.calls, t)
	}
}

// Wait lets one more unary call of a tenant wait for a lock, or refuses it. Call done after it.
func (d *Desk) Wait(ctx context.Context, t lock.Tenant) (done func(), err error) {
	if err := d.Work(ctx, t, Unary, callTime); err != nil {
		return nil, err
	}
	most := d.limits.WaitsPerAddress
	d.mu.Lock()
	defer d.mu.Unlock()
	if most > 0 && d.waits[t] >= most {
		return nil, d.denied("waits_per_address", most)
	}
	d.waits[t]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		lower(d.waits, t)
	}, nil
}
