package admission

import (
	"context"
	"time"
)

// callTime is how long a unary call waits to be let in.
const callTime = time.Second

// gate bounds the unary calls of one address that are at the store at a time. All clients share one way to the store,
// in the order in which they ask: without a bound one connection could put seconds of work in front of everybody
// else's. It exists while calls of the address are under way or wait.
type gate struct {
	slots chan struct{} // has a value for each call under way
	users int           // guarded by Desk.mu
}

// Call waits until one more unary call of a client's address may go to the store. Call done after it.
func (d *Desk) Call(ctx context.Context, peer string) (done func(), err error) {
	most, address := d.limits.CallsPerAddress, addressOf(peer)
	if most == 0 {
		return func() {}, nil
	}
	g := d.enter(address)
	late := time.NewTimer(callTime)
	defer late.Stop()
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; d.leave(address, g) }, nil
	case <-late.C:
		err = d.denied("calls_per_address", most)
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.leave(address, g)
	return nil, err
}

func (d *Desk) enter(address string) *gate {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.calls[address]
	if g == nil {
		g = &gate{slots: make(chan struct{}, d.limits.CallsPerAddress)}
		d.calls[address] = g
	}
	g.users++
	return g
}

func (d *Desk) leave(address string, g *gate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(d.calls, address)
	}
}

// Wait lets one more unary call of a client's address wait for a lock, or refuses it. Call done after it.
func (d *Desk) Wait(peer string) (done func(), err error) {
	most, address := d.limits.WaitsPerAddress, addressOf(peer)
	d.mu.Lock()
	defer d.mu.Unlock()
	if most > 0 && d.waits[address] >= most {
		return nil, d.denied("waits_per_address", most)
	}
	d.waits[address]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		lower(d.waits, address)
	}, nil
}
