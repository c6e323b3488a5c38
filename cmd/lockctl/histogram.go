package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/64 wide of what they hold, so that percentiles of any
// number of durations cost the same memory.
type histogram struct {
	counts [64 * subBuckets]uint64
	total  uint64
}

const (
	subBits    = 6
	subBuckets = 1 << subBits
)

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// percentile is the duration that a share p of all does not exceed, rounded up to the end of its bucket; 0 if there
// are none.
func (h *histogram) percentile(p float64) time.Duration {
	want := max(uint64(p*float64(h.total)), 1)
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= want {
			return time.Duration(bucketEnd(i))
		}
	}
	return 0
}

// bucket: values below subBuckets have one each; each power of two above is divided into subBuckets.
func bucket(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketEnd is the greatest value of a bucket.
func bucketEnd(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}
