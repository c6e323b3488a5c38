package broker

import (
	"context"
	"sync"
	"time"
)

// gateTime is how long a unary call waits to be let in.
const gateTime = time.Second

// gates bound the unary calls of one address that are at the store at a time. All clients share one way to the store, in the
// order in which they ask: without a bound one connection could put seconds of work in front of everybody else's.
type gates struct {
	mu    sync.Mutex // guards the fields below
	of    map[string]*gate
	waits map[string]int // calls that may wait for a lock
}

// gate is that of one address. It exists while calls of it are under way or wait.
type gate struct {
	slots chan struct{} // has a value for each call under way
	users int           // guarded by gates.mu
}

// Admit waits until one more unary call of a client's address may go to the store. Call done after it.
func (b *Broker) Admit(ctx context.Context, peer string) (done func(), err error) {
	most := b.cfg.Limits.CallsPerAddress
	if most == 0 {
		return func() {}, nil
	}
	address := addressOf(peer)
	g := b.gates.enter(address, most)
	late := time.NewTimer(gateTime)
	defer late.Stop()
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; b.gates.depart(address, g) }, nil
	case <-late.C:
		err = b.metrics.denied("calls_per_address", most)
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.gates.depart(address, g)
	return nil, err
}

// AdmitWait lets one more unary call of a client's address wait for a lock, or refuses it. Call done after it.
func (b *Broker) AdmitWait(peer string) (done func(), err error) {
	most, address := b.cfg.Limits.WaitsPerAddress, addressOf(peer)
	gs := &b.gates
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if most > 0 && gs.waits[address] >= most {
		return nil, b.metrics.denied("waits_per_address", most)
	}
	if gs.waits == nil {
		gs.waits = make(map[string]int)
	}
	gs.waits[address]++
	return func() { gs.waited(address) }, nil
}

func (gs *gates) waited(address string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.waits[address]--; gs.waits[address] == 0 {
		delete(gs.waits, address)
	}
}

func (gs *gates) enter(address string, most int) *gate {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.of[address]
	if g == nil {
		g = &gate{slots: make(chan struct{}, most)}
		if gs.of == nil {
			gs.of = make(map[string]*gate)
		}
		gs.of[address] = g
	}
	g.users++
	return g
}

func (gs *gates) depart(address string, g *gate) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(gs.of, address)
	}
}
