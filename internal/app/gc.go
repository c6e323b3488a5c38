package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// mostPercent lets a small heap grow to nine times what lives before it is collected. lockd's garbage is
	// short-lived, so with Go's own 100 the collector runs all the time: 400 took 12 % off the CPU time of a lock and
	// unlock, measured at 256 callers, and 800 another 4 % there and 10 % with 256 sessions, whose stacks are read by
	// each collection.
	mostPercent = 800
	// headroom is by how much a larger heap may grow: enough to collect it every few seconds. With 400, a million held
	// leases had 3 GiB of memory resident, and most of that was garbage.
	headroom = 384 << 20
	// leastPercent bounds what the collector works.
	leastPercent = 50
)

// percentFor is the GOGC for so many bytes that it counts from: those that live in the heap, and what is read through
// in stacks. Those that are still have nothing that a collection follows, and let the heap grow by nothing: memory that
// was not touched for long is slow, so a heap that grows for nothing costs more than its collections.
func percentFor(base, still uint64) int {
	if base == 0 {
		return mostPercent
	}
	growth := min((base-min(still, base))*mostPercent/100, headroom)
	return int(max(growth*100/base, leastPercent))
}

// tuned is for tuneGC, as there is one heap.
var tuned sync.Once

// tuneGC fits GOGC to the heap after each collection, still of which are without pointers and live for long. The
// variable GOGC overrides it; GOMEMLIMIT bounds memory as ever.
func tuneGC(still func() uint64) {
	tuned.Do(func() {
		if _, set := os.LookupEnv("GOGC"); set {
			return
		}
		debug.SetGCPercent(mostPercent)
		afterEachGC(func() { debug.SetGCPercent(percentFor(gcBase(), still())) })
	})
}

// afterEachGC runs f after the next collection and after each later one, by way of something that nobody uses.
func afterEachGC(f func()) {
	unused := new([64]byte)
	runtime.AddCleanup(unused, func(struct{}) {
		f()
		afterEachGC(f)
	}, struct{}{})
}

// gcBase is what the runtime adds so many percent of to what lives in the heap.
func gcBase() (sum uint64) {
	parts := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(parts)
	for _, p := range parts {
		if p.Value.Kind() == metrics.KindUint64 {
			sum += p.Value.Uint64()
		}
	}
	return sum
}
