package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The store is shared out by those who use it. What makes lockd work without using the store has a price, and is shared
// out here: refusals, tries for a lock that is held here, places in queues, signs of life, sessions that come and go,
// and unary calls, which cost lockd more than the store.
//
// Each tenant has an account. What it owes is paid with an even part of lockd's processors, and while it owes, its
// requests are read later. Nobody else waits for that, and a tenant that is alone does not either.

const (
	// workPart: a tenant may spend so much of lockd's processors, an eighth.
	workPart = 8
	// workBurst is what it may spend before that, and mostDebt what it owes at most, as the time that it takes to pay.
	workBurst = 200 * time.Millisecond
	mostDebt  = 10 * time.Second
	// together: so many shares all sessions of a tenant may spend that are not made to wait for as long as it owes, and
	// burst is what they do at a time.
	together = 4
	burst    = 64 * Refusal
	// lately is for how long a tenant counts as one that is there, after it last did something or had a session.
	lately = mostDebt
)

// Rate is how a debt is paid: with so much of a processor. Burst may be spent before, and MostDebt bounds what is owed,
// as the time that it takes to pay.
type Rate struct {
	Share           float64
	Burst, MostDebt time.Duration
}

// Account is what somebody owes for work. The zero Account owes nothing.
type Account struct {
	owed time.Duration // of a processor, as it was at the time below; below 0 some of the burst is left
	at   time.Time
}

// Owes is what is owed now; as much as -Burst if nothing is.
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

// Spend adds a price to what is owed, and returns that.
func (a *Account) Spend(r Rate, price time.Duration) time.Duration {
	a.owed = min(a.Owes(r, time.Now())+price, time.Duration(float64(r.MostDebt)*r.Share))
	return a.owed
}

// Wait is how long it takes to pay a debt.
func (r Rate) Wait(debt time.Duration) time.Duration {
	return max(0, time.Duration(float64(debt)/r.Share))
}

// Spend counts work of a tenant, and says for how long it is to be served later for that.
func (ts *Tenants) Spend(t lock.Tenant, price time.Duration) (wait time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.spendLocked(t, price)
}

// SpendFor counts work of a session, which is to be served no later than after its patience, however much others of its
// tenant owe, unless these are so many that all of them together would spend too much in that time.
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

// Work lets a tenant have something done that has a price, later if it owes, or refuses that if it would wait for
// longer than its patience.
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
