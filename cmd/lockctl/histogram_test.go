package main

import (
	"math"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	h := new(histogram)
	if h.percentile(0.5) != 0 {
		t.Error("a percentile of nothing")
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for p, want := range map[float64]time.Duration{
		0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0.999: 999 * time.Millisecond, 1: time.Second,
	} {
		if got := h.percentile(p); got < want || got > want+want/50 {
			t.Errorf("p%v: got %v, want %v or a little more", p, got, want)
		}
	}
}

func TestEveryDurationIsInItsBucket(t *testing.T) {
	for _, v := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1e3, 1e6, 1e9, 1e12, math.MaxInt64} {
		i := bucket(v)
		if bucketEnd(i) < v || i > 0 && bucketEnd(i-1) >= v || bucketEnd(i)-v > v/64 {
			t.Errorf("%d is in bucket %d, from %d to %d", v, i, bucketEnd(i-1)+1, bucketEnd(i))
		}
	}
}
