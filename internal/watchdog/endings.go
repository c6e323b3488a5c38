package watchdog

import (
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// endings tells leases that they are over, in a goroutine of its own while there are any. When very many end at once
// that takes long, and meanwhile others have to be renewed.
type endings[L Lease[L]] struct {
	wg *sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	over []L
	busy bool
}

// lose has leases told that their validity is over.
func (e *endings[L]) lose(ls []L) {
	if len(ls) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = append(e.over, ls...)
	if !e.busy {
		e.busy = true
		e.wg.Go(e.tell)
	}
}

func (e *endings[L]) tell() {
	for {
		e.mu.Lock()
		ls := e.over
		e.over = nil
		e.busy = len(ls) > 0
		e.mu.Unlock()
		if len(ls) == 0 {
			return
		}
		for _, l := range ls {
			l.Lose(lock.LostExpired)
		}
	}
}
