package session

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/benchtest"
)

func TestRequestIDWindow(t *testing.T) {
	var r requestIDs
	for _, step := range []struct {
		id    uint64
		fresh bool
	}{
		{1, true},
		{1, false},
		{3, true},
		{2, true},
		{2, false},
		{idWindow + 2, true},
		{2, false},
		{4, true},
		{3, false},
		{1 << 40, true},
		{1 << 40, false},
		{1<<40 - idWindow, false},
		{1<<40 - idWindow + 1, true},
		{1<<64 - 1, true},
		{1<<64 - 1, false},
		{1<<64 - 2, true},
		{0, false},
	} {
		if got := r.use(step.id); got != step.fresh {
			t.Errorf("id %d: got fresh = %v, want %v", step.id, got, step.fresh)
		}
	}
}

// TestAnyStrideOfRequestIDsCostsTheSame compares ids that follow each other with ids as far apart as they may be.
func TestAnyStrideOfRequestIDsCostsTheSame(t *testing.T) {
	cost := func(stride uint64) time.Duration {
		return benchtest.Quickest(func() {
			ids := new(requestIDs)
			for i := range uint64(10000) {
				if !ids.use(1 + i*stride) {
					t.Fatal("a fresh id was refused")
				}
			}
		})
	}
	near, far := cost(1), cost(4095)
	t.Logf("10,000 ids: %v next to each other, %v far apart", near, far)
	if far > 30*near {
		t.Errorf("%v next to each other, but %v far apart", near, far)
	}
}
