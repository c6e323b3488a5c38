package inspect

import (
	"container/list"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// maxNoteBytes bounds what is remembered of unary callers: some ten thousand leases.
	maxNoteBytes = 4 << 20
	// noteGrace is how long a lease is remembered after its end: another replica may have extended it.
	noteGrace = 10 * time.Minute
)

// Notes remember, for people who ask who holds a lock, what unary callers said of themselves and until when their
// leases last as far as this replica knows. Nothing else depends on them: when there are too many the oldest go.
// Another replica may extend or release a lease without telling this one, so only the store knows whether it is held.
type Notes struct {
	mu     sync.Mutex // guards the fields below
	byName map[string]map[lock.Owner]*list.Element
	order  list.List // of *note, the oldest first
	bytes  int
}

// Note is one unary lease.
type Note struct {
	Name  string
	Until time.Time
	Info  Holder
}

func (n *Note) size() int {
	return 400 + len(n.Name) + len(n.Info.Owner) + len(n.Info.Client.Name) + len(n.Info.Annotation)
}

// Add remembers a lease, in place of what was known of it.
func (ns *Notes) Add(n *Note) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n.Info.since = time.Now()
	if e := ns.byName[n.Name][n.Info.Owner]; e != nil && e.Value.(*Note).Info.Fence == n.Info.Fence {
		n.Info.since = e.Value.(*Note).Info.since // its caller asked again
	}
	ns.removeLocked(n.Name, n.Info.Owner)
	if ns.byName == nil {
		ns.byName = make(map[string]map[lock.Owner]*list.Element)
	}
	if ns.byName[n.Name] == nil {
		ns.byName[n.Name] = make(map[lock.Owner]*list.Element)
	}
	ns.byName[n.Name][n.Info.Owner] = ns.order.PushBack(n)
	ns.bytes += n.size()
	now := time.Now()
	for e := ns.order.Front(); e != nil; e = ns.order.Front() {
		oldest := e.Value.(*Note)
		if ns.bytes <= maxNoteBytes && oldest.Until.Add(noteGrace).After(now) {
			return
		}
		ns.removeLocked(oldest.Name, oldest.Info.Owner)
	}
}

// Of is what is known of a lease; zero if nothing is.
func (ns *Notes) Of(name string, o lock.Owner) (n Note) {
	ns.Change(name, o, func(known *Note) {
		n = *known
		n.Info.Age = time.Since(n.Info.since)
	})
	return n
}

// Change changes what is known of a lease, if anything is.
func (ns *Notes) Change(name string, o lock.Owner, change func(*Note)) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if e := ns.byName[name][o]; e != nil {
		change(e.Value.(*Note))
	}
}

// Remove forgets a lease.
func (ns *Notes) Remove(name string, o lock.Owner) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.removeLocked(name, o)
}

func (ns *Notes) removeLocked(name string, o lock.Owner) {
	e := ns.byName[name][o]
	if e == nil {
		return
	}
	ns.bytes -= ns.order.Remove(e).(*Note).size()
	if delete(ns.byName[name], o); len(ns.byName[name]) == 0 {
		delete(ns.byName, name)
	}
}

// of returns at most most leases of a name. Leases of permits are left out when they have ended: the store cannot tell
// whose permits are still out.
func (ns *Notes) of(name string, most int) (infos []Holder) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	now := time.Now()
	for _, e := range ns.byName[name] {
		n := e.Value.(*Note)
		if len(infos) < most && (n.Until.After(now) || n.Info.Kind != lock.Semaphore) {
			info := n.Info
			info.Age, info.TTL = now.Sub(n.Info.since), max(n.Until.Sub(now), 0)
			infos = append(infos, info)
		}
	}
	return infos
}
