package lock

import "sync"

// Teller tells things one after the other, in the order in which they were added. Its zero value has nothing to tell.
type Teller[T any] struct {
	mu      sync.Mutex // guards the fields below
	untold  []T
	telling bool // a Tell is under way, or about to begin
}

// Add adds things, and says whether the caller has to call Tell: else a Tell that is under way tells them.
func (t *Teller[T]) Add(some ...T) (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(some...)
}

// AddOrMerge is Add for one thing, but has it merged into the last one if most are untold.
func (t *Teller[T]) AddOrMerge(one T, most int, merge func(last *T)) (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.untold); n >= most {
		merge(&t.untold[n-1])
		return false
	}
	return t.addLocked(one)
}

func (t *Teller[T]) addLocked(some ...T) (tell bool) {
	t.untold = append(t.untold, some...)
	tell = !t.telling && len(t.untold) > 0
	t.telling = t.telling || tell
	return tell
}

// Tell calls tell for each thing until there is nothing left. No mutex is held meanwhile.
func (t *Teller[T]) Tell(tell func(T)) {
	for {
		t.mu.Lock()
		some := t.untold
		t.untold, t.telling = nil, len(some) > 0
		t.mu.Unlock()
		if len(some) == 0 {
			return
		}
		for _, one := range some {
			tell(one)
		}
	}
}
