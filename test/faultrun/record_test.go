package faultrun

import (
	"sync"
	"time"

	"github.com/lockd-io/lockd/test/faultrun/history"
)

// record is what the clients of a run saw. Times count from its beginning.
type record struct {
	begun time.Time

	mu     sync.Mutex // guards the fields below
	holds  []hold
	others []history.Event // refused, or without an outcome
	faults []fault
}

// hold is a lock that a client was granted.
type hold struct {
	client, name string
	fence        uint64
	asked, got   time.Duration // the grant happened between them
	sure         time.Duration // the last moment at which the holder took it for valid
	how          history.What  // it ended
	ended        time.Duration // when that was known
	kept         []move        // of its session, to other streams; those in the time of the hold count
}

// fault is something that failed, and for how long.
type fault struct {
	what     string
	from, to time.Duration
	forgets  bool // the store may have forgotten holds that were granted before the end of it
}

func newRecord() *record { return &record{begun: time.Now()} }

func (r *record) now() time.Duration { return time.Since(r.begun) }

func (r *record) hold(h hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = append(r.holds, h)
}

func (r *record) other(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others = append(r.others, e)
}

// during records a fault.
func (r *record) during(f fault, do func()) {
	f.from = r.now()
	do()
	f.to = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
}
