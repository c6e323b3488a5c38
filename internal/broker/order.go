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

// inOrder are up to size leases of this replica's sessions from one on, whose names begin with prefix. Each shard has
// its own order: some are taken from each, and more from those whose are used up.
func (b *Broker) inOrder(prefix string, from *Lease, size int) (page []*Lease) {
	share := size/shardCount*2 + 8
	var runs [shardCount][]*Lease
	var full [shardCount]bool
	for i := range b.shards {
		runs[i], full[i] = b.shards[i].inOrder(prefix, from, share)
	}
	for len(page) < size {
		first := -1
		for i, run := range runs {
			if len(run) > 0 && (first < 0 || run[0].compare(runs[first][0]) < 0) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		last := runs[first][0]
		page = append(page, last)
		if runs[first] = runs[first][1:]; len(runs[first]) == 0 && full[first] {
			runs[first], full[first] = b.shards[first].inOrder(prefix, last, share)
		}
	}
	return slices.Clip(page)
}

// inOrder are some leases of the shard that come behind one, and says whether there may be more.
func (h *shard) inOrder(prefix string, behind *Lease, most int) (some []*Lease, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases.AscendGreaterOrEqual(behind, func(l *Lease) bool {
		if l.compare(behind) <= 0 {
			return true
		}
		if len(some) == most || !strings.HasPrefix(l.name, prefix) {
			return false
		}
		some = append(some, l)
		return true
	})
	return some, len(some) == most
}
