package main

import (
	"cmp"
	"slices"
	"time"
)

// quantile is the smallest value that a share q of the sorted values does not exceed; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median is the middle one of some values, or the mean of the two in the middle; 0 of none.
func median[T float64 | time.Duration](values []T) T {
	s := slices.SortedFunc(slices.Values(values), cmp.Compare[T])
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// medianOf is the median of one property of some results.
func medianOf[R any, T float64 | time.Duration](results []R, of func(R) T) T {
	values := make([]T, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	return median(values)
}
