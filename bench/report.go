package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// printMachine says what the numbers depend on.
func printMachine(ctx context.Context, e env) {
	c := redis.NewClient(&redis.Options{Addr: e.redis.addr})
	defer func() { _ = c.Close() }()
	info := c.Info(ctx, "server").Val()
	fmt.Printf("%d cores (%s), Redis %s and lockd on loopback, %s %s/%s, load before the run %s\n",
		runtime.NumCPU(), cpuModel(), field(info, "redis_version:"), runtime.Version(), runtime.GOOS, runtime.GOARCH, load())
}

// field is the rest of the line that begins so.
func field(text, begin string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo") // other systems do not have it
	return strings.TrimLeft(field(string(b), "model name"), "\t :")
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg") // likewise
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

func printPairs(what string, callers int, results []peerPairs) {
	if len(results) == 0 {
		return
	}
	documented, redisson := fastest(results, library), fastest(results, java)
	best := max(documented, fastest(results, tuned))
	fmt.Printf("\n%s, callers: %d, median of %d rounds; CPU in us per pair\n\n", what, callers, len(results[0].runs))
	head := []string{"peer", "pairs/s", "least-most", "p50", "p99", "CPU Redis", "CPU lockd", "CPU client"}
	if documented > 0 {
		head = append(head, "/ best library", "/ best tuned")
	}
	if redisson > 0 {
		head = append(head, "/ Redisson")
	}
	t := newTable(head...)
	for _, p := range results {
		if len(p.runs) == 0 {
			t.add(p.peer.name)
			continue
		}
		cells := pairCells(p)
		if documented > 0 {
			cells = append(cells, ratio(rate(p)/documented), ratio(rate(p)/best))
		}
		if redisson > 0 {
			cells = append(cells, ratio(rate(p)/redisson))
		}
		t.add(cells...)
	}
	t.print()
}

// rate is how many pairs per second a peer made.
func rate(p peerPairs) float64 { return median(rates(p)) }

// fastest is the greatest rate of the peers of a kind, 0 if there are none.
func fastest(results []peerPairs, of kind) (most float64) {
	for _, p := range results {
		if p.peer.kind == of && len(p.runs) > 0 {
			most = max(most, rate(p))
		}
	}
	return most
}

// pairCells are the columns of any table of pairs.
func pairCells(p peerPairs) []string {
	took := func(of func(pairResult) time.Duration) time.Duration { return medianOf(p.runs, of) }
	rates := rates(p)
	lockd := "-"
	if p.peer.kind == ours || p.peer.kind == echoed {
		lockd = micros(took(func(r pairResult) time.Duration { return r.cpu.lockd }))
	}
	return []string{
		p.peer.name, whole(median(rates)), whole(slices.Min(rates)) + "-" + whole(slices.Max(rates)),
		short(took(func(r pairResult) time.Duration { return r.p50 })),
		short(took(func(r pairResult) time.Duration { return r.p99 })),
		micros(took(func(r pairResult) time.Duration { return r.cpu.redis })), lockd,
		micros(took(func(r pairResult) time.Duration { return r.cpu.client })),
	}
}

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

func rates(p peerPairs) []float64 {
	var out []float64
	for _, r := range p.runs {
		out = append(out, r.rate)
	}
	return out
}

func printHot(results []peerHot) {
	if len(results) == 0 {
		return
	}
	fmt.Printf("\nOne name, callers: %d, held for %v, median of %d rounds\n\n", hotCallers, hold, len(results[0].runs))
	t := newTable("peer", "grants/s", "gap p50", "gap p99", "to same", "longest wait", "most/least")
	for _, p := range results {
		if len(p.runs) == 0 {
			t.add(p.peer.name)
			continue
		}
		unfair := medianOf(p.runs, func(r hotResult) float64 { return r.unfair })
		fairness := fmt.Sprintf("%.1f", unfair)
		if math.IsInf(unfair, 1) {
			fairness = "some got none"
		}
		t.add(p.peer.name,
			whole(medianOf(p.runs, func(r hotResult) float64 { return r.rate })),
			short(medianOf(p.runs, func(r hotResult) time.Duration { return r.p50 })),
			short(medianOf(p.runs, func(r hotResult) time.Duration { return r.p99 })),
			fmt.Sprintf("%.0f %%", 100*medianOf(p.runs, func(r hotResult) float64 { return r.same })),
			short(medianOf(p.runs, func(r hotResult) time.Duration { return r.longest })), fairness)
	}
	t.print()
}
