package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The store is shared out where it is used. Work of lockd that does not use the store has a price, and is shared out
// here: refusals, tries for a lock that is held here, places in queues, signs of life, sessions that come and go, and
// unary calls, which cost lockd more than the store.
//
// Each tenant has an account. A fixed part of lockd's processors pays what the tenant owes, and while it owes, its
// requests are read later. Nobody else waits for that, nor does a tenant that is alone.

const (
	// workPart: a tenant may spend 1/workPart of lockd's processors.
	workPart = 8
	// workBurst is what it may spend before it owes anything, and mostDebt what it owes at most, as the time that it takes
	// to pay.
	workBurst = 200 * time.Millisecond
	mostDebt  = 10 * time.Second
	// together: sessions of a tenant that owes wait no longer than their patience while all of them spend at most so many
	// shares. burst is the most that one of them is taken to spend at a time.
	together = 4
	burst    = 64 * Refusal
	// lately is for how long a tenant without a session counts as one that is there, after its last work.
	lately = mostDebt
)

// Rate is how a debt is paid: with Share processors. Burst may be spent before anything is owed, and MostDebt bounds
// what is owed, as the time that it takes to pay.
type Rate struct {
	Share           float64
	Burst, MostDebt time.Duration
}

// Account is what somebody owes for work. The zero Account owes nothing.
type Account struct {
	owed time.Duration // of a processor, as of at; if it is negative, some of the burst is left
	at   time.Time
}

// Owes is what is owed now: down to -Burst if nothing is.
func (a *Account) Owes(r Rate, now time.Time) time.Duration {
	if a.at.IsZero() { // too long ago to be multiplied
		a.owed = -r.Burst
	} else {
		paid := time.Duration(float64(now.Sub(a.at)) * r.Share)
		a.owed = max(a.owed-paid, -r.Burst)
	}
	a.at = now
	return a.owed
}

// Spend adds a price to what is owed, and returns what is owed then.
func (a *Account) Spend(r Rate, price time.Duration) time.Duration {
	a.owed = min(a.Owes(r, time.Now())+price, time.Duration(float64(r.MostDebt)*r.Share))
	return a.owed
}

// Wait is how long it takes to pay a debt.
func (r Rate) Wait(debt time.Duration) time.Duration {
	return max(0, time.Duration(float64(debt)/r.Share))
}

// Spend counts work of a tenant, and says for how long its next request should wait.
func (ts *Tenants) Spend(t lock.Tenant, price time.Duration) (wait time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.spendLocked(t, price)
}

// SpendFor counts work of a session, and says for how long its next request should wait: at most for patience, however
// much its tenant owes, unless the tenant has so many sessions that together they would spend too much in that time.
func (ts *Tenants) SpendFor(t lock.Tenant, price, patience time.Duration) (wait time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	wait = ts.spendLocked(t, price)
	all := float64(ts.sessions[t]) * float64(min(price, burst))
	return min(wait, max(patience, time.Duration(all/(together*ts.rate.Share))))
}

func (ts *Tenants) spendLocked(t lock.Tenant, price time.Duration) (wait time.Duration) {
	a := ts.accounts.Of(t)
	if wait = ts.rate.Wait(a.Spend(ts.rate, price)); wait > 0 && ts.aloneLocked(t) {
		a.owed, wait = 0, 0
	}
	return wait
}

// aloneLocked says whether no other tenant is there. On the way it forgets those who have left.
func (ts *Tenants) aloneLocked(t lock.Tenant) bool {
	for other := range ts.sessions {
		if other != t {
			return false
		}
	}
	for other, a := range ts.accounts.all {
		switch {
		case other == t:
		case ts.hasLeftLocked(other, a):
			delete(ts.accounts.all, other)
		default:
			return false
		}
	}
	return true
}

// hasLeftLocked says whether a tenant has left. What it owed is paid by then.
func (ts *Tenants) hasLeftLocked(t lock.Tenant, a *Account) bool {
	return ts.sessions[t] == 0 && time.Since(a.at) >= lately
}

// Work counts work of a tenant before it is done, and waits while the tenant owes. If that would take longer than
// patience, it counts nothing and returns an error.
func (ts *Tenants) Work(ctx context.Context, t lock.Tenant, price, patience time.Duration) error {
	ts.mu.Lock()
	wait := ts.spendLocked(t, price)
	if wait > patience {
		ts.accounts.Of(t).owed -= price
		ts.mu.Unlock()
		return fmt.Errorf("the clients of this address make lockd work too much: %w",
			ts.denied("work", int(ts.rate.Share*100)))
	}
	ts.mu.Unlock()
	if wait == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for its turn: %w", context.Cause(ctx))
	}
}
