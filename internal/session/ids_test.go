package session

import (
	"fmt"
	"testing"
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

func TestRequestIDsThatWereUsedElsewhere(t *testing.T) {
	for _, last := range []uint64{1, 63, 64, 65, idWindow, 1 << 40} {
		var r requestIDs
		r.useAll(last)
		if r.use(last) || last > 1 && r.use(last-1) || !r.use(last+1) || r.use(last+1) || !r.use(last+100) || !r.use(last+2) {
			t.Errorf("after %d: want that all up to it were used, and none above", last)
		}
	}
}

// BenchmarkStrides compares ids that follow each other with ids as far apart as they may be.
func BenchmarkStrides(b *testing.B) {
	for _, stride := range []uint64{1, 4095} {
		b.Run(fmt.Sprint("stride=", stride), func(b *testing.B) {
			ids, next := new(requestIDs), uint64(1)
			for b.Loop() {
				ids.use(next)
				next += stride
			}
		})
	}
}
