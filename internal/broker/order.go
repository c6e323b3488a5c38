package broker

import (
	"cmp"
	"slices"
	"strings"
)

// Leases are kept in the order in which operators are told them, so that a page costs what is on it and not what there
// is.

// orderDegree is the width of the trees.
const orderDegree = 32

// compare orders leases: by name, then by fence; permits and readers may share one.
func (l *Lease) compare(o *Lease) int {
	return cmp.Or(strings.Compare(l.name, o.name), cmp.Compare(l.fence, o.fence),
		strings.Compare(string(l.owner), string(o.owner)))
}

// inOrder are up to size leases of this replica's sessions behind one, whose names begin with prefix. Each shard has
// its own order, and is asked for what comes before the last one of those that are known.
func (b *Broker) inOrder(prefix string, behind *Lease, size int) (page []*Lease) {
	b.eachShard(func(h *shard) {
		h.leases.AscendGreaterOrEqual(behind, func(l *Lease) bool {
			switch {
			case l.compare(behind) == 0:
				return true
			case !strings.HasPrefix(l.name, prefix), len(page) == size && l.compare(page[size-1]) > 0:
				return false
			}
			at, _ := slices.BinarySearchFunc(page, l, (*Lease).compare)
			page = slices.Insert(page, at, l)
			page = page[:min(len(page), size)]
			return true
		})
	})
	return page
}
