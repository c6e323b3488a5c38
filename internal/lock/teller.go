package lock

import "sync"

// Teller tells things one after the other, in the order in which they came. Its zero value has nothing to tell.
type Teller[T any] struct {
	mu      sync.Mutex // guards the fields below
	untold  []T
	telling bool // somebody does
}

// Add adds things, and says whether Tell has to be called, because nobody tells them.
func (t *Teller[T]) Add(some ...T) (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
