package broker

import (
	"cmp"
	"runtime"
	"strings"

	"github.com/google/btree"
)

// order keeps sessions and leases in the order in which operators are told them, so that a page costs what is on it and
// not what there is. Broker.mu guards it.
type order struct {
	sessions *btree.BTreeG[*Session]
	leases   *btree.BTreeG[*Lease]
}

// orderDegree is the width of the trees.
const orderDegree = 32

func newOrder() order {
	return order{
		sessions: btree.NewG(orderDegree, func(a, b *Session) bool { return a.id < b.id }),
		leases:   btree.NewG(orderDegree, func(a, b *Lease) bool { return a.compare(b) < 0 }),
	}
}

// compare orders leases: by name, then by fence; permits and readers may share one.
func (l *Lease) compare(o *Lease) int {
	return cmp.Or(strings.Compare(l.name, o.name), cmp.Compare(l.fence, o.fence), strings.Compare(string(l.owner), string(o.owner)))
}

// pieceSize is how much is done to sessions or leases before others have the mutex.
const pieceSize = 256

// piece lets others have Broker.mu from time to time, in work on many things. What was read before may have changed.
type piece struct{ done int }

func (p *piece) breakLocked(b *Broker, cost int) {
	if p.done += cost; p.done < pieceSize {
		return
	}
	p.done = 0
	b.pieces++
	b.mu.Unlock()
	runtime.Gosched()
	b.mu.Lock()
}
