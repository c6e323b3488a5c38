package redlock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// odd knows the holds that have a greater fence at a member than the one that was told. That is so when others had the
// name there in between, and the hold was put back, or granted late. Calls for such a hold bring the fence that the
// member knows. Other replicas find it out when they renew the hold.
type odd struct {
	count atomic.Int64 // of fences; most calls look at nothing else

	mu     sync.Mutex // guards the fields below
	fences map[oddHold]oddFence
}

// holding is who has what.
type holding struct {
	name  string
	owner lock.Owner
}

type oddHold struct {
	member int
	name   string
	owner  lock.Owner
	told   lock.Fence
}

type oddFence struct {
	fence lock.Fence
	end   time.Time // when it may be forgotten
}

// maxOdd bounds the holds that are known.
const maxOdd = 10_000

// note takes note of the fence that a member gave for a claim that was told with the claim's fence.
func (o *odd) note(m *member, c lock.Claim, there lock.Fence) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.fences) >= maxOdd {
		for k, f := range o.fences {
			if now.After(f.end) {
				delete(o.fences, k)
			}
		}
	}
	if o.fences == nil {
		o.fences = make(map[oddHold]oddFence)
	}
	if len(o.fences) < maxOdd {
		o.fences[oddHold{m.number, c.Name, c.Owner, c.Fence}] = oddFence{there, now.Add(c.TTL + longest)}
	}
	o.count.Store(int64(len(o.fences)))
}

// at is the fence that a hold has at a member.
func (o *odd) at(m *member, name string, owner lock.Owner, told lock.Fence) lock.Fence {
	if o.count.Load() == 0 || told == 0 {
		return told
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok := o.fences[oddHold{m.number, name, owner, told}]; ok {
		return f.fence
	}
	return told
}

// forget is called when a hold was released.
func (o *odd) forget(r lock.Return) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range maxMembers {
		delete(o.fences, oddHold{i, r.Name, r.Owner, r.Fence})
	}
	o.count.Store(int64(len(o.fences)))
}

// at is a renewal with the fence that a member knows.
func (s *Store) at(m *member, r lock.Renewal) lock.Renewal {
	r.Fence = s.odd.at(m, r.Name, r.Owner, r.Fence)
	return r
}

// returnAt is at for a release.
func (s *Store) returnAt(m *member, r lock.Return) lock.Return {
	r.Fence = s.odd.at(m, r.Name, r.Owner, r.Fence)
	return r
}

// nestedAt is at for a further acquisition. A first one knows no fence yet.
func (s *Store) nestedAt(m *member, c lock.Claim) lock.Claim {
	if c.Count > 1 {
		c.Fence = s.odd.at(m, c.Name, c.Owner, c.Fence)
	}
	return c
}
