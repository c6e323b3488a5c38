package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Allowance is how much one client of the clients file may have on a replica, whatever its sessions are. 0 is no bound
// of its own: what holds for the clients of an address holds for it.
type Allowance struct {
	Sessions          int `yaml:"sessions"`
	Locks             int `yaml:"locks"`               // held or asked for
	Waiting           int `yaml:"waiting"`             // requests
	Watches           int `yaml:"watches"`             // watched names
	RequestsPerSecond int `yaml:"requests_per_second"` // those that give something back are not counted
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
	kinds
)

// Use is what a client of the clients file has on this replica, with all its sessions and calls. A nil Use counts
// nothing and allows everything.
type Use struct {
	denied Denied
	allow  atomic.Pointer[Allowance]
	has    [kinds]atomic.Int64

	mu       sync.Mutex // guards the field below
	requests Account
}

// second has an allowance of requests: one for each of its parts, and as many at once as a second has.
var second = Rate{Share: 1, Burst: time.Second, MostDebt: time.Second}

// most is how much a client may have of something, and what that is called; 0 is no bound.
func (a *Allowance) most(k Kind) (n int, subject string) {
	switch k {
	case UseLocks:
		return a.Locks, "client_locks"
	case UseWaiting:
		return a.Waiting, "client_waiting"
	case UseWatches:
		return a.Watches, "client_watches"
	default:
		return a.Streams, "client_streams"
	}
}

// Take counts n more of something, or refuses them. Less than one is never refused.
func (u *Use) Take(k Kind, n int) error {
	if u == nil || n == 0 {
		return nil
	}
	has := u.has[k].Add(int64(n))
	most, subject := u.allow.Load().most(k)
	if n > 0 && most > 0 && has > int64(most) {
		u.has[k].Add(-int64(n))
		return u.denied(subject, most)
	}
	return nil
}

// Add counts n more of something that is there already.
func (u *Use) Add(k Kind, n int) {
	if u != nil {
		u.has[k].Add(int64(n))
	}
}

// Give counts n less.
func (u *Use) Give(k Kind, n int) { u.Add(k, -n) }

// Request counts a request, or refuses it.
func (u *Use) Request() error {
	if u == nil {
		return nil
	}
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

// Allow has clients have so much from now on. What they have already stays. Who has nothing and may have nothing of its
// own is forgotten.
func (ts *Tenants) Allow(all Allowances) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.counting = ts.counting || all != nil
	for t, u := range ts.uses {
		if _, there := all[t]; !there {
			u.allow.Store(new(Allowance))
			if u.isEmpty() {
				delete(ts.uses, t)
			}
		}
	}
	for t, a := range all {
		ts.useLocked(t).allow.Store(&a)
	}
}

// Use is what a client has; nil if there is no clients file. One that comes before Allow has heard of it is counted all
// the same.
func (ts *Tenants) Use(t lock.Tenant) *Use {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !ts.counting {
		return nil
	}
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
	u := ts.uses[t]
	if u == nil {
		u = &Use{denied: ts.denied}
		u.allow.Store(new(Allowance))
		ts.uses[t] = u
	}
	return u
}

// Usages are the bounds of a client, and how much of them is used.
func (ts *Tenants) Usages(t lock.Tenant) (all []Usage) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	u := ts.uses[t]
	if u == nil {
		return nil
	}
	a := u.allow.Load()
	all = []Usage{{"sessions", a.Sessions, ts.sessions[t]}, {"requests_per_second", a.RequestsPerSecond, 0}}
	for k, subject := range [kinds]string{"locks", "waiting", "watches", "streams"} {
		most, _ := a.most(Kind(k))
		all = append(all, Usage{subject, most, int(u.has[k].Load())})
	}
	return all
}

// mostSessionsLocked is how many sessions a tenant may have, and what that is called; 0 is no bound.
func (ts *Tenants) mostSessionsLocked(t lock.Tenant) (n int, subject string) {
	if u := ts.uses[t]; u != nil {
		if most := u.allow.Load().Sessions; most > 0 {
			return most, "client_sessions"
		}
	}
	return ts.limits.SessionsPerAddress, "sessions_per_address"
}
