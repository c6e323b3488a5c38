package broker

import (
	"container/list"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// maxNotes and maxNoteBytes bound what is remembered of unary callers.
	maxNotes     = 10_000
	maxNoteBytes = 4 << 20
	// noteGrace is how much longer a lease is remembered: another replica may have extended it.
	noteGrace = 10 * time.Minute
)

// notes remember what unary callers said of themselves, for people who ask who holds a lock. Nothing else depends on them:
// when there are too many the oldest go. Another replica may extend or release a lease without a word, so the store is asked
// whether it is held.
type notes struct {
	mu     sync.Mutex // guards the fields below
	byName map[string]map[lock.Owner]*list.Element
	order  list.List // of *note, the oldest first
	bytes  int
}

// note is one unary lease.
type note struct {
	name  string
	until time.Time
	info  HolderInfo
}

func (n *note) size() int {
	return 200 + len(n.name) + len(n.info.Owner) + len(n.info.Client.Name) + len(n.info.Annotation)
}

// add remembers a lease, instead of what was known of it.
func (ns *notes) add(n *note) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if e := ns.byName[n.name][n.info.Owner]; e != nil && e.Value.(*note).info.Fence == n.info.Fence {
		n.info.since = e.Value.(*note).info.since // its caller asked again
	}
	ns.removeLocked(n.name, n.info.Owner)
	if ns.byName == nil {
		ns.byName = make(map[string]map[lock.Owner]*list.Element)
	}
	if ns.byName[n.name] == nil {
		ns.byName[n.name] = make(map[lock.Owner]*list.Element)
	}
	ns.byName[n.name][n.info.Owner] = ns.order.PushBack(n)
	ns.bytes += n.size()
	now := time.Now()
	for e := ns.order.Front(); e != nil; e = ns.order.Front() {
		oldest := e.Value.(*note)
		if ns.order.Len() <= maxNotes && ns.bytes <= maxNoteBytes && oldest.until.Add(noteGrace).After(now) {
			return
		}
		ns.removeLocked(oldest.name, oldest.info.Owner)
	}
}

// extended takes note that a lease ends later.
func (ns *notes) extended(name string, o lock.Owner, until time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if e := ns.byName[name][o]; e != nil {
		e.Value.(*note).until = until
	}
}

// remove forgets a lease.
func (ns *notes) remove(name string, o lock.Owner) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.removeLocked(name, o)
}

func (ns *notes) removeLocked(name string, o lock.Owner) {
	e := ns.byName[name][o]
	if e == nil {
		return
	}
	ns.bytes -= ns.order.Remove(e).(*note).size()
	if delete(ns.byName[name], o); len(ns.byName[name]) == 0 {
		delete(ns.byName, name)
	}
}

// of returns at most so many leases of a name. Those of permits must not have ended: the store cannot tell whose they are.
func (ns *notes) of(name string, most int) (infos []HolderInfo) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	now := time.Now()
	for _, e := range ns.byName[name] {
		n := e.Value.(*note)
		if len(infos) < most && (n.until.After(now) || n.info.Kind != lock.Semaphore) {
			info := n.info
			info.Age, info.TTL = now.Sub(n.info.since), max(n.until.Sub(now), 0)
			infos = append(infos, info)
		}
	}
	return infos
}
