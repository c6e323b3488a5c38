// Package admission bounds what the clients of a replica, and those of one address, may have under way.
//
// # What it promises
//
// There are never more sessions, streams that may become one, or unary calls than the limits say. What is refused costs
// nothing further.
//
// # What it does not promise
//
// An address is not a client: many can stand behind one proxy, and one can have many addresses.
package admission

import (
	"net/netip"
	"sync"
)

// Limits bound what may be under way. 0 is no limit, but for Sessions.
type Limits struct {
	Sessions           int // on this replica
	SessionsPerAddress int
	CallsPerAddress    int // unary ones, at the store at a time
	WaitsPerAddress    int // unary ones that may wait for a lock, at a time
}

// Desk lets clients in.
type Desk struct {
	limits Limits
	denied func(subject string, limit int) error

	mu       sync.Mutex // guards the fields below
	all      int        // slots of sessions
	parted   int        // sessions that wait for their clients
	sessions map[string]int
	calls    map[string]*gate
	waits    map[string]int
}

// New makes a Desk. denied is the error for what is over a limit.
func New(l Limits, denied func(subject string, limit int) error) *Desk {
	return &Desk{
		limits: l, denied: denied,
		sessions: make(map[string]int), calls: make(map[string]*gate), waits: make(map[string]int),
	}
}

// lower counts down what an address has, and forgets it at 0.
func lower(of map[string]int, address string) {
	if of[address]--; of[address] == 0 {
		delete(of, address)
	}
}

// addressOf is the IP address of a peer, without its port. Peers that have none count as one.
func addressOf(peer string) string {
	p, err := netip.ParseAddrPort(peer)
	if err != nil {
		return ""
	}
	return p.Addr().Unmap().WithZone("").String()
}
