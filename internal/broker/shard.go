package broker

import (
	"hash/maphash"
	"sync"

	"github.com/google/btree"

	"github.com/lockd-io/lockd/internal/lock"
)

// shardCount is into how many parts the names are divided: so many that two goroutines seldom want the same one, even
// if the operating system does not run the one that has it for a while.
const shardCount = 512

// shard has a part of the names, with all that is known here of them: their queues, those who wait, and their leases.
// Its mutex is locked before those of sessions and Broker.mu. Two shards are locked in the order of their numbers, and
// only for a request that asks for several names.
type shard struct {
	mu       sync.Mutex // guards the fields below, and all queues, waiters and leases of its names
	queues   map[string]*queue
	leases   *btree.BTreeG[*Lease]
	repeated map[lock.Owner][]*waiter  // requests whose callers may repeat them, see once.go
	byHolder map[holding][]*waiter     // requests of named holders in queues, see nest.go
	leaving  map[placeKey][]lock.Owner // places being given up
	doubted  map[string]stamp          // what was last found in the store before this may be there no more, see doubt.go
	waiting  map[*waiter]bool          // requests that have to wait; of several names, in the shard of the first one
	closed   bool

	_ [64]byte // no two shards share a cache line
}

func (h *shard) init() {
	h.queues = make(map[string]*queue)
	h.leases = btree.NewG(orderDegree, func(a, b *Lease) bool { return a.compare(b) < 0 })
	h.repeated = make(map[lock.Owner][]*waiter)
	h.doubted = make(map[string]stamp)
	h.waiting = make(map[*waiter]bool)
	h.byHolder = make(map[holding][]*waiter)
	h.leaving = make(map[placeKey][]lock.Owner)
}

// shardOf is the shard of a name.
func (b *Broker) shardOf(name string) *shard { return &b.shards[b.shardNumber(name)] }

func (b *Broker) shardNumber(name string) int { return int(maphash.String(b.seed, name) % shardCount) }

// eachShard calls f with each shard, with its mutex held.
func (b *Broker) eachShard(f func(h *shard)) {
	for i := range b.shards {
		h := &b.shards[i]
		h.mu.Lock()
		f(h)
		h.mu.Unlock()
	}
}

// lock locks the mutexes of all names a request asks for. Who comes from the queue of one name, and only has the store
// asked for the request, needs the mutex of that name only: a request changes its queue with all of them locked.
func (w *waiter) lock() {
	if w.all == nil {
		w.shard.mu.Lock()
		return
	}
	for _, n := range w.shards {
		w.b.shards[n].mu.Lock()
	}
}

func (w *waiter) unlock() {
	if w.all == nil {
		w.shard.mu.Unlock()
		return
	}
	for _, n := range w.shards {
		w.b.shards[n].mu.Unlock()
	}
}

// lock locks the mutex of the lease's name.
func (l *Lease) lock() { l.q.shard.mu.Lock() }

func (l *Lease) unlock() { l.q.shard.mu.Unlock() }

// lockEach calls f for leases, each with the mutex of its name held. The caller holds none.
func lockEach(ls []*Lease, f func(i int, l *Lease)) {
	var held *shard
	for i, l := range ls {
		if h := l.q.shard; h != held {
			if held != nil {
				held.mu.Unlock()
			}
			h.mu.Lock()
			held = h
		}
		f(i, l)
	}
	if held != nil {
		held.mu.Unlock()
	}
}
