package faultrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
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

// watch has it be a fault when something does not answer for longer than a bound, until stop. What was asked of it may
// be done so much later, and its client knows nothing of that.
func (r *record) watch(what string, bound time.Duration, answers func() bool) (stop func()) {
	gaps := harness.Gaps(bound, answers)
	return func() {
		found := gaps()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, g := range found {
			r.faults = append(r.faults, fault{
				what: what + " stood still", from: g.From.Sub(r.begun), to: g.To.Sub(r.begun),
			})
		}
	}
}

// witness is a client of a run as its record knows it, with what it was told of its streams.
type witness struct {
	id  string
	rec *record

	cuts, ends atomic.Int64 // streams that broke, sessions that ended

	mu   sync.Mutex    // guards the fields below
	left time.Duration // since when it is to be in another stream; 0 if it is in one
	done []move
	why  []string // sessions ended
}

// move is one from a stream to another.
type move struct{ from, to time.Duration }

// told is called by the Client.
func (w *witness) told(s client.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.State == client.Disconnected:
		w.ends.Add(1)
		w.why = append(w.why, fmt.Sprintf("at %v, without a stream since %v: %v", w.rec.now(), w.left, s.Err))
		w.left = 0
	case s.State == client.Interrupted:
		w.cuts.Add(1)
		w.left = cmp.Or(w.left, w.rec.now())
	case s.State == client.Draining:
		w.left = cmp.Or(w.left, w.rec.now())
	case s.State == client.Connected && w.left != 0:
		w.done = append(w.done, move{w.left, w.rec.now()})
		w.left = 0
	}
}

// ended says why sessions ended.
func (w *witness) ended() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.why)
}

func (w *witness) moves() []move {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.done)
}

// moved says whether it has gone on in another stream since a time, and is to leave none.
func (w *witness) moved(since time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left == 0 && len(w.done) > 0 && w.done[len(w.done)-1].to > since
}

// lock is a lock that was granted.
type lock interface {
	Fence() uint64
	Err() error // nil while it is valid
	Unlock(ctx context.Context) error
}

// held is a lock of a client.
type held struct {
	lock
	of *witness
	h  hold
}

// take asks for a name, and records what becomes of that.
func (w *witness) take(name string, ask func() (lock, error)) (*held, error) {
	h := hold{client: w.id, name: name, asked: w.rec.now()}
	l, err := ask()
	h.got = w.rec.now()
	if err != nil {
		w.rec.other(h.without(err))
		return nil, err
	}
	h.fence, h.sure = l.Fence(), h.asked
	return &held{l, w, h}, nil
}

// without is a request that did not become a hold, as far as its client knows.
func (h hold) without(err error) history.Event {
	e := history.Event{Client: h.client, Name: h.name, What: history.MaybeGranted, From: h.asked, To: h.got}
	if errors.Is(err, client.ErrHeld) {
		e.What = history.Refused
	}
	return e
}

// valid says whether its holder takes it for valid, and notes until when.
func (h *held) valid() bool {
	now := h.of.rec.now()
	if h.Err() != nil {
		return false
	}
	h.h.sure = now
	return true
}

// give ends a hold and records it. Of a shared kind nothing is recorded: others may hold it, too.
func (h *held) give(ctx context.Context) error {
	h.valid()
	err := h.Unlock(ctx)
	h.h.how, h.h.ended = howEnded(err), max(h.of.rec.now(), h.h.sure)
	if l, ok := h.lock.(*client.Lock); ok && l.Kind() == client.Read {
		return err
	}
	h.h.kept = h.of.moves()
	r := h.of.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = append(r.holds, h.h)
	return err
}

// howEnded is how a hold ended, by what its release was told.
func howEnded(err error) history.What {
	switch {
	case err == nil:
		return history.Released
	case errors.Is(err, client.ErrLost):
		return history.Lost
	case errors.Is(err, client.ErrNotHeld), errors.Is(err, client.ErrStale):
		return history.NotHeld
	default:
		return history.MaybeReleased
	}
}
