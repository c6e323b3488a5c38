package redlock

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// memory remembers things for a while. While it knows nothing, it costs a caller no more than one atomic read.
type memory[K comparable, V any] struct {
	most  int          // how many are known; 0 for any number
	until atomic.Int64 // when the last one may be forgotten, in ns since 1970; 0 if there is none

	mu    sync.Mutex // guards the fields below
	known map[K]remembered[V]
	swept time.Time // when it was last looked which of them are over
}

type remembered[V any] struct {
	v   V
	end time.Time // when it may be forgotten
}

const (
	// maxKnown bounds a memory. What is more is as if it were not known.
	maxKnown = 10_000
	// sweepPause is the least time between two looks at all that is known.
	sweepPause = time.Second
)

// get is what is known under a key.
func (m *memory[K, V]) get(k K) (v V, known bool) {
	if time.Now().UnixNano() > m.until.Load() {
		return v, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.known[k]
	if !known || time.Now().After(r.end) {
		return v, false
	}
	return r.v, true
}

// put has something be known for so long, and never makes it be forgotten earlier.
func (m *memory[K, V]) put(k K, v V, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked()
	before, there := m.known[k]
	if !there && m.most > 0 && len(m.known) >= m.most {
		return
	}
	end := time.Now().Add(keep)
	if before.end.After(end) {
		end = before.end
	}
	if m.known == nil {
		m.known = make(map[K]remembered[V])
	}
	m.known[k] = remembered[V]{v, end}
	m.until.Store(max(m.until.Load(), end.UnixNano()))
}

// sweepLocked forgets what is over, if that was not done a moment ago.
func (m *memory[K, V]) sweepLocked() {
	now := time.Now()
	if now.Sub(m.swept) < sweepPause {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.known, func(_ K, r remembered[V]) bool { return now.After(r.end) })
	if len(m.known) == 0 {
		m.known = nil // a map keeps its size
	}
}
