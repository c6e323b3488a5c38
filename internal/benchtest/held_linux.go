package benchtest

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Held tells for how long a mutex is held. A thread of its own looks at it every few microseconds: the part of the
// looks that find it locked is the part of the time in which somebody holds it. That part of the CPU time of all other
// threads is what was done under it. It needs one processor more than the work.
type Held struct {
	mu     *sync.Mutex
	over   chan struct{}
	ended  chan struct{}
	before time.Duration // of the process
	own    time.Duration // CPU time of the looking thread

	looks, locked int
}

// lookEvery is short beside a run and long beside a look: for the moment of a look nobody else gets the mutex.
const lookEvery = 5 * time.Microsecond

// Hold begins to look at a mutex.
func Hold(mu *sync.Mutex) *Held {
	h := &Held{mu: mu, over: make(chan struct{}), ended: make(chan struct{}), before: cpu(unix.CLOCK_PROCESS_CPUTIME_ID)}
	go h.look()
	return h
}

func (h *Held) look() {
	defer close(h.ended)
	runtime.LockOSThread() // never unlocked: the thread ends with us
	before := cpu(unix.CLOCK_THREAD_CPUTIME_ID)
	defer func() { h.own = cpu(unix.CLOCK_THREAD_CPUTIME_ID) - before }()
	for {
		select {
		case <-h.over:
			return
		default:
		}
		h.looks++
		if h.mu.TryLock() {
			h.mu.Unlock()
		} else {
			h.locked++
		}
		// Sleeping would take longer.
		for next := time.Now().Add(lookEvery); time.Now().Before(next); {
		}
	}
}

// Stop ends the looking and returns how much CPU time was used while the mutex was held, and what part of all time that
// is.
func (h *Held) Stop() (held time.Duration, part float64) {
	close(h.over)
	<-h.ended
	others := cpu(unix.CLOCK_PROCESS_CPUTIME_ID) - h.before - h.own
	part = float64(h.locked) / float64(max(h.looks, 1))
	return time.Duration(float64(others) * part), part
}

func cpu(clock int32) time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(clock, &ts) // these clocks always exist
	return time.Duration(ts.Nano())
}
