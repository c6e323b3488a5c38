package watching

import (
	"maps"
	"time"
)

// recent remembers what was put last.
type recent[K comparable, V any] struct {
	values map[K]V
	order  []put[K]
	peak   int // values that there were since the map was made: what it took for them it keeps
}

// put says when something was put.
type put[K comparable] struct {
	key K
	at  time.Time
}

const (
	// maxRecent bounds it.
	maxRecent = 4096
	// fewRecent are so many that it does not matter what they take.
	fewRecent = 64
)

func (r *recent[K, V]) get(k K) (v V, there bool) { v, there = r.values[k]; return v, there }

func (r *recent[K, V]) has(k K) bool { _, there := r.values[k]; return there }

func (r *recent[K, V]) put(k K, v V) {
	if r.values == nil {
		r.values = make(map[K]V)
	}
	r.values[k] = v
	r.peak = max(r.peak, len(r.values))
	r.order = append(r.order, put[K]{k, time.Now()})
	if len(r.order) > maxRecent {
		r.dropFirst()
	}
}

func (r *recent[K, V]) dropFirst() {
	delete(r.values, r.order[0].key)
	r.order = r.order[1:]
}

// forget leaves the key in the order, so it is bounded as if it were there.
func (r *recent[K, V]) forget(k K) { delete(r.values, k) }

// forgetBefore forgets what was put before a time, and lets go of what many took of which few are left.
func (r *recent[K, V]) forgetBefore(t time.Time) {
	for len(r.order) > 0 && r.order[0].at.Before(t) {
		r.dropFirst()
	}
	if r.peak <= fewRecent || len(r.values) > r.peak/4 {
		return
	}
	values := make(map[K]V, len(r.values)) // a clone would be as large as the one before
	maps.Copy(values, r.values)
	r.values, r.order, r.peak = values, append([]put[K](nil), r.order...), len(values)
}
