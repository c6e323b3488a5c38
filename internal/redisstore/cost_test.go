package redisstore

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

func TestRenewalsAreCutByCost(t *testing.T) {
	var rs []lock.Renewal
	var all []int
	for i := range 600 {
		r := lock.Renewal{Kind: lock.Exclusive}
		if i%2 == 0 {
			r = lock.Renewal{Kind: lock.Semaphore, Permits: uint32(i)} //nolint:gosec // small
		}
		rs, all = append(rs, r), append(all, i)
	}
	next := 0
	for _, chunk := range byCost(rs, all) {
		cost := 0
		for _, i := range chunk {
			if i != next {
				t.Fatalf("got hold %d, want %d", i, next)
			}
			next++
			cost += renewCost(rs[i])
		}
		if cost > renewChunk && len(chunk) > 1 {
			t.Errorf("a chunk of %d holds costs %d, want at most %d", len(chunk), cost, renewChunk)
		}
	}
	if next != len(rs) {
		t.Errorf("%d holds are in chunks, want %d", next, len(rs))
	}
}
