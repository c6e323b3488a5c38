package main

import (
	"testing"
	"time"
)

func TestQuantileAndMedian(t *testing.T) {
	ms := func(n ...int) (out []time.Duration) {
		for _, v := range n {
			out = append(out, time.Duration(v)*time.Millisecond)
		}
		return out
	}
	for _, row := range []struct {
		got, want time.Duration
	}{
		{quantile(nil, 0.5), 0},
		{quantile(ms(1, 2, 3, 4), 0.5), 3 * time.Millisecond},
		{quantile(ms(1, 2, 3, 4), 0.99), 4 * time.Millisecond},
		{median(ms(3, 1, 2)), 2 * time.Millisecond},
		{median(ms(4, 1)), 2500 * time.Microsecond},
		{median([]time.Duration(nil)), 0},
	} {
		if row.got != row.want {
			t.Errorf("got %v, want %v", row.got, row.want)
		}
	}
}
