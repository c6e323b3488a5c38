package broker_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// oracle knows what all clients were told and judges whether it can be true.
type oracle struct {
	mu    sync.Mutex // guards the fields below and all told holds
	holds map[string][]*told
	wrong []string
}

// told is a hold as its client sees it: from when it heard of it until it releases it, hears of its loss or stops
// to trust it, whatever comes first.
type told struct {
	who     string
	hold    session.Hold
	permits uint32
	fence   lock.Fence
	from    time.Time
	until   time.Time // the validity
	ended   time.Time // zero: not before its validity
	log     string
}

func newOracle() *oracle { return &oracle{holds: make(map[string][]*told)} }

func (o *oracle) complain(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

func (o *oracle) granted(h session.Hold, permits uint32, who string, until time.Time) *told {
	name := h.Name
	o.mu.Lock()
	defer o.mu.Unlock()
	if !until.After(time.Now()) {
		o.wrong = append(o.wrong, fmt.Sprintf("%s was granted %q %v after its end", who, name, time.Since(until)))
	}
	t := &told{who: who, hold: h, permits: max(permits, 1), fence: h.Fence, from: time.Now(), until: until}
	o.holds[name] = append(o.holds[name], t)
	return t
}

// trusted says that a hold can be trusted for longer.
func (o *oracle) trusted(t *told, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.log += fmt.Sprint("\n   ", time.Now().Format(clock), " trusted until ", until.Format(clock))
	if until.After(t.until) {
		t.until = until
	}
}

// shortened says that a hold must not be trusted for longer until it is said again.
func (o *oracle) shortened(t *told, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.log += fmt.Sprint("\n   ", time.Now().Format(clock), " shortened to ", until.Format(clock))
	if until.Before(t.until) {
		t.until = until
	}
}

// isOver says whether a hold cannot be trusted any more.
func (o *oracle) isOver(t *told) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !t.ended.IsZero() || !time.Now().Before(t.until)
}

func (o *oracle) ended(t *told) { o.endedAt(t, time.Now()) }

func (o *oracle) endedAt(t *told, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.log += fmt.Sprint("\n   ", time.Now().Format(clock), " ended at ", at.Format(clock))
	if t.ended.IsZero() || at.Before(t.ended) {
		t.ended = at
	}
}

// goesOn takes an ended back: the hold was only counted down, and what remains lasts until a time.
func (o *oracle) goesOn(t *told, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.ended, t.until = time.Time{}, until
	t.log += fmt.Sprint("\n   ", time.Now().Format(clock), " goes on until ", until.Format(clock))
}

// verdict lists what cannot be: two holders at once, and fences that do not rise.
func (o *oracle) verdict(forced map[string][]force, notes map[string][]note) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	wrong := o.wrong
	for name, holds := range o.holds {
		wrong = append(wrong, tooMany(name, holds, forced[name])...)
		slices.SortStableFunc(holds, func(a, b *told) int { return cmp.Compare(a.fence, b.fence) })
		for i, a := range holds {
			end := a.end(forced[name])
			for _, b := range holds[i+1:] {
				shared := a.shares(b)
				switch {
				case a.fence == b.fence && a.who != b.who:
					wrong = append(wrong, fmt.Sprintf("%s and %s have the same fence of %q", a.who, b.who, name))
				case shared:
				case a.fence < b.fence && b.from.Before(a.from) && len(forced[name]) == 0:
					wrong = append(wrong, fmt.Sprintf("%s has fence %d of %q, and before that %s had %d", a.who, a.fence, name, b.who,
						b.fence))
				case a.fence < b.fence && b.from.Before(end) && b.end(forced[name]).After(a.from):
					wrong = append(wrong, fmt.Sprintf("%s and %s hold %q at once: fence %d from %v to %v, fence %d from %v", a.who,
						b.who, name,
						a.fence, a.from.Format(clock), end.Format(clock), b.fence, b.from.Format(clock))+a.log+"\n"+history(notes[name],
						a.from.Add(-time.Second), b.from))
				}
			}
		}
	}
	return wrong
}

// shares says whether two holds may be there at once.
func (t *told) shares(o *told) bool {
	if t.hold.Kind.Shared() && o.hold.Kind.Shared() {
		return true
	}
	// A writer may also read.
	return t.who == o.who && t.hold.Holder == o.hold.Holder && t.hold.Kind != o.hold.Kind
}

// tooMany lists the moments at which more permits were out than there are.
func tooMany(name string, holds []*told, forced []force) (wrong []string) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, t := range holds {
		if t.hold.Kind == lock.Semaphore {
			changes = append(changes, change{t.from, int(t.permits)}, change{t.end(forced), -int(t.permits)})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return cmp.Compare(a.by, b.by)
	})
	out := 0
	for _, c := range changes {
		if out += c.by; out > stressLimit {
			wrong = append(wrong, fmt.Sprintf("%d permits of %q are out at once, at %v", out, name, c.at.Format(clock)))
		}
	}
	return wrong
}

const clock = "04:05.000"

// end is when a hold stops to count.
func (t *told) end(forced []force) time.Time {
	end := t.until
	if !t.ended.IsZero() && t.ended.Before(end) {
		end = t.ended
	}
	for _, f := range forced {
		if (f.fence >= t.fence || !t.from.After(f.over)) && f.at.Before(end) {
			end = f.at
		}
	}
	return end
}

func (o *oracle) grants() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, holds := range o.holds {
		n += len(holds)
	}
	return n
}

// history is what was executed from one time to another.
func history(notes []note, from, to time.Time) string {
	var b strings.Builder
	for _, n := range notes {
		if n.at.After(from) && !n.at.After(to) {
			fmt.Fprintf(&b, "\t%s %s\n", n.at.Format(clock), n.text)
		}
	}
	return b.String()
}
