// Package admission bounds what the clients of a replica, and those of one tenant, may have under way.
//
// # What it promises
//
// There are never more sessions, streams that may become one, or unary calls than the limits say. What is refused costs
// nothing further. No tenant has lockd work for more than its share without using the store (work.go), and none uses
// more new names in an hour than the limit says (names.go).
//
// # What it does not promise
//
// A tenant is an address today, as package origin has it, and an address is not a client: many can stand behind one
// proxy, and one can have many addresses.
package admission

import (
	"runtime"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/origin"
)

// Limits bound what may be under way. 0 is no limit, but for Sessions.
type Limits struct {
	Sessions           int // on this replica
	SessionsPerAddress int
	CallsPerAddress    int // unary ones, at the store at a time
	WaitsPerAddress    int // unary ones that may wait for a lock, at a time
	NamesPerAddress    int // that it did not use lately, in an hour
}

// Desk lets clients in.
type Desk struct {
	limits Limits
	share  float64 // of a processor, see work.go
	denied func(subject string, limit int) error

	mu       sync.Mutex // guards the fields below
	all      int        // slots of sessions
	parted   int        // sessions that wait for their clients
	sessions map[lock.Tenant]int
	calls    map[lock.Tenant]*gate
	waits    map[lock.Tenant]int
	works    map[lock.Tenant]*work
	// with so many of them it is looked whose tenants have left
	manyWorks int

	naming naming
}

// New makes a Desk. denied is the error for what is over a limit.
func New(l Limits, denied func(subject string, limit int) error) *Desk {
	return &Desk{
		limits: l, share: float64(runtime.GOMAXPROCS(0)) / workPart, denied: denied,
		sessions: make(map[lock.Tenant]int), calls: make(map[lock.Tenant]*gate), waits: make(map[lock.Tenant]int),
		works: make(map[lock.Tenant]*work), manyWorks: fewWorks,
		naming: naming{tenants: make(map[lock.Tenant]*names), began: time.Now()},
	}
}

// lower counts down what a tenant has, and forgets it at 0.
func lower(of map[lock.Tenant]int, t lock.Tenant) {
	if of[t]--; of[t] == 0 {
		delete(of, t)
	}
}

// TenantOf is the tenant of a client that comes from a network address: its origin. Peers that have none are one
// tenant.
func TenantOf(peer string) lock.Tenant { return lock.Tenant(origin.Text(origin.Of(peer))) }
