package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Allowance is how much one client of the clients file may have on a replica, in all its sessions together. 0 is no
// bound of its own: then the bounds by address apply.
type Allowance struct {
	Sessions          int `yaml:"sessions"`
	Locks             int `yaml:"locks"`               // held or asked for
	Waiting           int `yaml:"waiting"`             // requests
	Watches           int `yaml:"watches"`             // watched names
	RequestsPerSecond int `yaml:"requests_per_second"` // releases and the like are not counted
	Streams           int `yaml:"streams"`             // of sessions, and unary calls
}

// Allowances are those of all clients.
type Allowances map[lock.Tenant]Allowance

// Kind is what a Use counts.
type Kind uint8

// The kinds.
const (
	UseLocks Kind = iota
	UseWaiting
	UseWatches
	UseStreams
	UseRenewalLoad // of the locks of sessions, held or asked for
	kinds
)

// renewalLoadTTL is the shortest TTL of a session whose locks RenewalLoad counts once.
const renewalLoadTTL = 10 * time.Second

// RenewalLoad is how many times a lock of a session with this TTL counts, because it is renewed, or verified, up to
// four times in a TTL. So a tenant that may have 100,000 causes at most 40,000 renewals in a second, whatever TTLs its
// sessions have.
func RenewalLoad(ttl time.Duration) int { return int(max((renewalLoadTTL-1)/max(ttl, 1)+1, 1)) }

// Use is what a tenant has on this replica, with all its sessions and calls.
type Use struct {
	denied      Denied
	renewalLoad int // bound, or 0 for none
	watches     int // likewise, unless its allowance has one
	allow       atomic.Pointer[Allowance]
	has         [kinds]atomic.Int64

	mu       sync.Mutex // guards the field below
	requests Account
}

// second is the rate for requests: each costs its part of a second, and those of a second may come at once.
var second = Rate{Share: 1, Burst: time.Second, MostDebt: time.Second}

// most is the bound of a kind, 0 for none, and the subject that a refusal names.
func (u *Use) most(k Kind) (n int, subject string) {
	a := u.allow.Load()
	switch k {
	case UseRenewalLoad:
		if u.renewalLoad == 0 {
			return 0, "locks_per_address"
		}
		return max(u.renewalLoad, a.Locks), "locks_per_address"
	case UseLocks:
		return a.Locks, "client_locks"
	case UseWaiting:
		return a.Waiting, "client_waiting"
	case UseWatches:
		if a.Watches == 0 {
			return u.watches, "watches_per_address"
		}
		return a.Watches, "client_watches"
	default:
		return a.Streams, "client_streams"
	}
}

// Take counts n more of a kind, or refuses them. An n below 1 is never refused.
func (u *Use) Take(k Kind, n int) error {
	most, subject := u.most(k)
	if !u.take(k, n, most) {
		return u.denied(subject, most)
	}
	return nil
}

// ofAnother is how many times its bound of renewal load a tenant may have when sessions are resumed here: when one of
// two replicas ends, the other one has what both had.
const ofAnother = 2

// Bring counts the renewal load of the holds that a resumed session brings, or refuses it.
func (u *Use) Bring(n int) error {
	most, subject := u.most(UseRenewalLoad)
	if !u.take(UseRenewalLoad, n, ofAnother*most) {
		return u.denied(subject, ofAnother*most)
	}
	return nil
}

// take counts n more, unless that would be more than most. A refused n is not counted even for a moment: a smaller one
// might be refused for it.
func (u *Use) take(k Kind, n, most int) bool {
	for n != 0 {
		has := u.has[k].Load()
		if n > 0 && most > 0 && has+int64(n) > int64(most) {
			return false
		}
		if u.has[k].CompareAndSwap(has, has+int64(n)) {
			break
		}
	}
	return true
}

// Add counts n more of a kind whatever the bound is, because they are there already.
func (u *Use) Add(k Kind, n int) {
	if n != 0 {
		u.has[k].Add(int64(n))
	}
}

// Give counts n less.
func (u *Use) Give(k Kind, n int) { u.Add(k, -n) }

// Request counts a request, or refuses it.
func (u *Use) Request() error {
	most := u.allow.Load().RequestsPerSecond
	if most == 0 {
		return nil
	}
	price := time.Second / time.Duration(most)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests.Owes(second, time.Now())+price > 0 {
		return u.denied("client_requests_per_second", most)
	}
	u.requests.Spend(second, price)
	return nil
}

// Usage is one bound of a client, and how much of it is used.
type Usage struct {
	Subject     string
	Limit, Used int
}

// Allow sets the allowances of all clients. What they have already stays. Tenants that have nothing and are not in all
// are forgotten.
func (ts *Tenants) Allow(all Allowances) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t, u := range ts.uses.all {
		if _, there := all[t]; !there {
			u.allow.Store(new(Allowance))
			if ts.hasNothingLocked(t, u) {
				delete(ts.uses.all, t)
			}
		}
	}
	for t, a := range all {
		ts.useLocked(t).allow.Store(&a)
	}
}

// Use is what a tenant has. A client that comes before its allowance is set is counted, too.
func (ts *Tenants) Use(t lock.Tenant) *Use {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.useLocked(t)
}

// isEmpty says whether nothing is counted.
func (u *Use) isEmpty() bool {
	for k := range u.has {
		if u.has[k].Load() != 0 {
			return false
		}
	}
	return true
}

func (ts *Tenants) useLocked(t lock.Tenant) *Use {
	u := ts.uses.Of(t)
	if u.allow.Load() == nil {
		u.denied, u.renewalLoad, u.watches = ts.denied, ts.limits.LocksPerAddress, ts.limits.WatchesPerAddress
		u.allow.Store(new(Allowance))
	}
	return u
}

// hasNothingLocked says whether a tenant has nothing, and no allowance either.
func (ts *Tenants) hasNothingLocked(t lock.Tenant, u *Use) bool {
	return ts.sessions[t] == 0 && *u.allow.Load() == Allowance{} && u.isEmpty()
}

// Usages are the bounds of a client, and how much of them is used.
func (ts *Tenants) Usages(t lock.Tenant) (all []Usage) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	u := ts.uses.all[t]
	if u == nil {
		return nil
	}
	a := u.allow.Load()
	all = []Usage{{"sessions", a.Sessions, ts.sessions[t]}, {"requests_per_second", a.RequestsPerSecond, 0}}
	for k, subject := range [kinds]string{"locks", "waiting", "watches", "streams", "locks_per_address"} {
		most, _ := u.most(Kind(k))
		all = append(all, Usage{subject, most, int(u.has[k].Load())})
	}
	return all
}

// mostSessionsLocked is how many sessions a tenant may have, 0 for no bound, and the subject that a refusal names.
func (ts *Tenants) mostSessionsLocked(t lock.Tenant) (n int, subject string) {
	if u := ts.uses.all[t]; u != nil {
		if most := u.allow.Load().Sessions; most > 0 {
			return most, "client_sessions"
		}
	}
	return ts.limits.SessionsPerAddress, "sessions_per_address"
}
