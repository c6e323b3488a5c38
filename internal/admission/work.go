package admission

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

// What requests cost a processor of lockd, with their messages, from the first byte to the last. Prices are static:
// they need not be true, but true to each other.
const (
	Refusal  = 10 * time.Microsecond  // any request that is answered and did not ask the store
	Sign     = 4 * time.Microsecond   // a heartbeat, or a message that asks for nothing
	Leaving  = 60 * time.Microsecond  // a place in a queue of the store that is given up
	Change   = 200 * time.Microsecond // the end of a hold whose name the same tenant watches, with what it costs Redis
	Told     = 2 * time.Microsecond   // to tell one of the same tenant who watches of it
	Opening  = 250 * time.Microsecond // a session, with its end
	Unary    = 100 * time.Microsecond // a unary call
	SettleAt = 100 * time.Microsecond // less is not paid for at once
)

const (
	// workPart: a tenant may spend so much of lockd's processors, an eighth.
	workPart = 8
	// workBurst is what it may spend before that.
	workBurst = 200 * time.Millisecond
	// mostDebt bounds what a tenant owes, as the time that it takes to pay.
	mostDebt = 10 * time.Second
	// together: so many shares all sessions of a tenant may spend that are not made to wait for as long as it owes.
	together = 4
	// turn is what they do at a time.
	turn = 64 * Refusal
	// fewWorks are so many accounts that nobody looks which of them are of tenants that have left.
	fewWorks = 1024
	// lately is for how long a tenant counts as one that is there, after it last did something or had a session.
	lately = 10 * time.Second
)

// work is the account of a tenant.
type work struct {
	owed time.Duration // of a processor, as it was at the time below; below 0 some is left
	at   time.Time
}

// Spend counts work of a tenant, and says for how long it is to be served later for that.
func (d *Desk) Spend(t lock.Tenant, price time.Duration) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spendLocked(t, price)
}

// SpendFor counts work of a session, which is to be served no later than after its patience, however much others of its
// tenant owe, unless these are so many that all of them together would spend too much in that time.
func (d *Desk) SpendFor(t lock.Tenant, price, patience time.Duration) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait = d.spendLocked(t, price)
	all := float64(d.sessions[t]) * float64(min(price, turn))
	return min(wait, max(patience, time.Duration(all/(together*d.share))))
}

func (d *Desk) spendLocked(t lock.Tenant, price time.Duration) (wait time.Duration) {
	now := time.Now()
	w := d.works[t]
	if w == nil {
		if len(d.works) >= d.manyWorks {
			d.forgetWorksLocked(now)
		}
		w = &work{owed: -workBurst, at: now}
		d.works[t] = w
	}
	paid := time.Duration(float64(now.Sub(w.at)) * d.share)
	w.owed, w.at = max(w.owed-paid, -workBurst)+price, now
	if w.owed <= 0 {
		return 0
	}
	if d.aloneLocked(t, now) {
		w.owed = 0
		return 0
	}
	w.owed = min(w.owed, time.Duration(float64(mostDebt)*d.share))
	return time.Duration(float64(w.owed) / d.share)
}

// forgetWorksLocked drops the accounts of those who have left.
func (d *Desk) forgetWorksLocked(now time.Time) {
	for t, w := range d.works {
		if d.leftLocked(t, w, now) {
			delete(d.works, t)
		}
	}
	d.manyWorks = 2*len(d.works) + fewWorks
}

// leftLocked says whether a tenant has left. What it owed is paid by then.
func (d *Desk) leftLocked(t lock.Tenant, w *work, now time.Time) bool {
	return d.sessions[t] == 0 && now.Sub(w.at) >= lately
}

// aloneLocked says whether nobody else is there. On the way it forgets those who have left.
func (d *Desk) aloneLocked(t lock.Tenant, now time.Time) bool {
	for other, n := range d.sessions {
		if n > 0 && other != t {
			return false
		}
	}
	for other, w := range d.works {
		switch {
		case other == t:
		case now.Sub(w.at) < lately:
			return false
		case d.leftLocked(other, w, now):
			delete(d.works, other)
		}
	}
	return true
}

// Work lets a tenant have something done that has a price, later if it owes, or refuses that if it would wait for
// longer than its patience.
func (d *Desk) Work(ctx context.Context, t lock.Tenant, price, patience time.Duration) error {
	d.mu.Lock()
	wait := d.spendLocked(t, price)
	if wait > patience {
		d.works[t].owed -= price
		d.mu.Unlock()
		return fmt.Errorf("the clients of this address make lockd work too much: %w",
			d.denied("work", int(d.share*100)))
	}
	d.mu.Unlock()
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for its turn: %w", context.Cause(ctx))
	}
}
