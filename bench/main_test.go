package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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

func TestBucketsOfAHistogram(t *testing.T) {
	before := metrics{`x_bucket{le="0.5"}`: 1, `x_bucket{le="1"}`: 1, `x_bucket{le="2.5"}`: 3, `x_bucket{le="+Inf"}`: 3}
	after := metrics{`x_bucket{le="0.5"}`: 1, `x_bucket{le="1"}`: 5, `x_bucket{le="2.5"}`: 9, `x_bucket{le="+Inf"}`: 9}
	all := after.buckets(before, "x")
	if got := most(all); got != 2.5 {
		t.Errorf("most: got %v, want 2.5", got)
	}
	if got := least(all); got != 0.5 {
		t.Errorf("least: got %v, want 0.5", got)
	}
	if empty(all) || !empty(after.buckets(after, "x")) {
		t.Error("values came, and none since the last reading")
	}
	after[`x_bucket{le="+Inf"}`]++
	if got := most(after.buckets(before, "x")); !math.IsInf(got, 1) {
		t.Errorf("most of values above all limits: got %v, want +Inf", got)
	}
}

func TestWhole(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.8: "1,234,568"} {
		if got := whole(v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestACallAsMonitorShowsIt(t *testing.T) {
	lines := `+OK
+1.5 [0 lua] "EVALSHA" "x" "1" "bench:a"
+1.5 [0 127.0.0.1:5] "PTTL" "bench:a"
+1.5 [0 127.0.0.1:5] "EVALSHA" "s1" "2" "bench:a" "t:{bench:a}" "id:#2" "1" "a\"b"
+1.5 [0 unix:/x] "evalsha" "s2" "1" "bench:a" "id:#2" "77" ""
`
	s := &scripts{name: "bench:a", fence: "77"}
	if err := s.find(bufio.NewScanner(strings.NewReader(lines))); err != nil {
		t.Fatal(err)
	}
	keys, args := s.about(s.acquire, "n", "me", "")
	if want := []string{"n", "t:{n}"}; s.acquire.sha != "s1" || !slices.Equal(keys, want) {
		t.Errorf("acquire %q: got keys %q, want %q", s.acquire.sha, keys, want)
	}
	if want := []any{"me", "1", `a"b`}; !slices.Equal(args, want) {
		t.Errorf("got args %q, want %q", args, want)
	}
	if _, args = s.about(s.release, "n", "me", "78"); !slices.Equal(args, []any{"me", "78", ""}) {
		t.Errorf("got args %q of the release", args)
	}
}

func TestOnlyOthersMayBeStuck(t *testing.T) {
	late := fmt.Errorf("lock: %w", context.DeadlineExceeded)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		what string
		got  bool
		want bool
	}{
		{"a library", isStuck(t.Context(), peer{kind: library}, late), true},
		{"lockd", isStuck(t.Context(), peer{kind: ours}, late), false},
		{"another error", isStuck(t.Context(), peer{kind: library}, errors.New("no")), false},
		{"no error", isStuck(t.Context(), peer{kind: library}, nil), false},
		{"the end of all", isStuck(over, peer{kind: library}, late), false},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %t, want %t", row.what, row.got, row.want)
		}
	}
}
