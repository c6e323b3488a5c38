package limits

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Tenants counts what the clients of each tenant have under way.
type Tenants struct {
	limits Limits
	rate   Rate // of work
	denied Denied
	calls  *quotas
	waits  *quotas
	lists  *quotas
	names  names

	mu       sync.Mutex // guards the fields below
	all      int        // slots that are taken
	parted   int        // sessions that wait for their clients
	sessions map[lock.Tenant]int
	accounts Table[Account]
	uses     Table[Use]
}

// NewTenants makes Tenants.
func NewTenants(l Limits, denied Denied) *Tenants {
	share := float64(runtime.GOMAXPROCS(0)) / workPart
	ts := &Tenants{
		limits: l, rate: Rate{Share: share, Burst: workBurst, MostDebt: mostDebt}, denied: denied,
		calls:    newQuotas("calls_per_address", l.CallsPerAddress, denied),
		waits:    newQuotas("waits_per_address", l.WaitsPerAddress, denied),
		lists:    newQuotas("lists", Lists, denied),
		names:    names{tenants: make(map[lock.Tenant]*tenantNames), began: time.Now()},
		sessions: make(map[lock.Tenant]int),
	}
	ts.accounts, ts.uses = NewTable(ts.hasLeftLocked), NewTable(ts.hasNothingLocked)
	return ts
}

// UnaryPatience is how long a unary call waits at most until its tenant may make it.
const UnaryPatience = time.Second

// Call waits until one more unary call of a tenant may go to the store. Call done after it. Without this bound one
// connection could put seconds of work for the store in front of everybody else's. A call that waits for a lock has
// another bound, and is refused at once if that is reached.
func (ts *Tenants) Call(ctx context.Context, t lock.Tenant, waits bool) (done func(), err error) {
	if err := ts.Work(ctx, t, Unary, UnaryPatience); err != nil {
		return nil, err
	}
	if waits {
		return ts.waits.enter(ctx, t, 0)
	}
	return ts.calls.enter(ctx, t, UnaryPatience)
}

// List waits until a tenant may have one more large answer in memory. Call done when its client has read it.
func (ts *Tenants) List(ctx context.Context, t lock.Tenant) (done func(), err error) {
	return ts.lists.enter(ctx, t, UnaryPatience)
}
