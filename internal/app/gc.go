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
	// leastPercent bounds how often the collector runs.
	leastPercent = 50
)

// percentFor is the GOGC for base bytes, which it is a percentage of: what lives in the heap, and what is scanned in
// stacks. still of them live long and have no pointers to follow, so the heap does not grow for them: memory that was
// not touched for long is slow, so useless growth costs more than collections.
func percentFor(base, still uint64) int {
	if base == 0 {
		return mostPercent
	}
	growth := min((base-min(still, base))*mostPercent/100, headroom)
	return int(max(growth*100/base, leastPercent))
}

// tuned is for tuneGC, as there is one heap.
var tuned sync.Once

// tuneGC fits GOGC to the heap after each collection. still tells how many bytes of it live long and have no pointers.
// The variable GOGC overrides it; GOMEMLIMIT bounds memory as ever.
func tuneGC(still func() uint64) {
	tuned.Do(func() {
		if _, set := os.LookupEnv("GOGC"); set {
			return
		}
		debug.SetGCPercent(mostPercent)
		afterEachGC(func() { debug.SetGCPercent(percentFor(gcBase(), still())) })
	})
}

// afterEachGC runs f after each collection from now on, as the cleanup of something that nobody uses.
func afterEachGC(f func()) {
	unused := new([64]byte)
	runtime.AddCleanup(unused, func(struct{}) {
		f()
		afterEachGC(f)
	}, struct{}{})
}

// gcBase is how many bytes GOGC is a percentage of.
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
