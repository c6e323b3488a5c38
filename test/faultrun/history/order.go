package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// timeline is what is known of one name.
type timeline struct {
	holds   []*hold // in the order of fences
	refused []Event
	maybe   []Event // requests without an answer
}

// hold is one hold of the name.
type hold struct {
	granted    Event
	told       []Event // of it afterwards
	begin, end moment
}

// moment is when something happened: not before first.From and not after last.To.
type moment struct{ first, last Event }

func (m *moment) notBefore(e Event) {
	if e.From > m.first.From {
		m.first = e
	}
}

func (m *moment) notAfter(e Event) {
	if e.To < m.last.To {
		m.last = e
	}
}

// check decides about one name, without a search. Fences order the grants, and a hold ends before the next grant. So
// only one order is possible for the beginnings and ends of holds:
//
//	grant 1, end 1, grant 2, end 2, ...
//
// Three questions are left, and none needs a guess.
//
// Can each of these be at a moment in its time, in this order? Each is put as early as it can be after those before it.
// If one is too late then, it is too late in any case.
//
// Was the name held at some moment of each refusal? All grants are put as early as possible, and all ends as late as
// possible. Where an end is then later than the next grant, both can be at one moment, and the name is not free between
// them. So these moments can be chosen together, and with any others the name is free whenever it is with these.
//
// Do requests without an answer account for the other refusals? From its moment on such a request makes refusals
// possible, until the next grant, and it does nothing else. So it may be anywhere if no refusal needs it, and a gap
// between two holds needs one at most: one that begins before the first such refusal in the gap has ended, and that can
// be at or after the end of the hold before. It may have to be before the gap, because its time is over then. The hold
// is then taken to end at that moment, and all refusals after it are accounted for. The gaps follow each other. Each
// takes the request whose time is over first: all that it can take have begun, so the others are at least as good for
// the gaps that follow.
//
// This takes n log n steps for n events, and for each gap that needs a request a look at those that are not over.
func check(events []Event) error {
	t, err := newTimeline(events)
	if err != nil {
		return err
	}
	if err := t.arrange(); err != nil {
		return err
	}
	return t.explain()
}

func newTimeline(events []Event) (*timeline, error) {
	t, told := &timeline{}, map[uint64][]Event{}
	for _, e := range events {
		switch e.What {
		case Granted:
			t.holds = append(t.holds, &hold{granted: e})
		case Refused:
			t.refused = append(t.refused, e)
		case MaybeGranted:
			t.maybe = append(t.maybe, e)
		case Released, NotHeld, MaybeReleased, Kept, Lost:
			told[e.Fence] = append(told[e.Fence], e)
		}
	}
	slices.SortFunc(t.holds, func(a, b *hold) int { return cmp.Compare(a.granted.Fence, b.granted.Fence) })
	for i, h := range t.holds {
		if i > 0 && t.holds[i-1].granted.Fence == h.granted.Fence {
			return nil, fmt.Errorf("two grants with one fence: %v, and %v", t.holds[i-1].granted, h.granted)
		}
		h.told = told[h.granted.Fence]
		delete(told, h.granted.Fence)
	}
	for _, of := range told {
		return nil, fmt.Errorf("nobody was granted this: %v", of[0])
	}
	return t, nil
}

// bound sets when the hold can have begun and ended, by what was told of it alone. It ends with the first event that
// says so, and those that follow find it over. A release that was done is the first.
func (h *hold) bound() error {
	h.begin = moment{h.granted, h.granted}
	h.end = moment{first: Event{From: Never}, last: Event{To: Never}}
	for _, e := range h.told {
		if e.What != Kept {
			h.end.notAfter(e)
			if e.From < h.end.first.From {
				h.end.first = e
			}
		}
	}
	released := 0
	for _, e := range h.told {
		if e.What == Kept {
			h.begin.notAfter(e)
		}
		if e.What == Released {
			released++
		}
		if e.What == Kept || e.What == Released {
			h.end.notBefore(e)
		}
	}
	if released > 1 {
		return fmt.Errorf("released twice: %v", h.granted)
	}
	return nil
}

// arrange sets when each hold can have begun and ended, between the others.
func (t *timeline) arrange() error {
	var all []*moment
	for i, h := range t.holds {
		if err := h.bound(); err != nil {
			return err
		}
		if i > 0 && t.holds[i-1].end.first.From == Never {
			return fmt.Errorf("%v, though this did not end: %v", h.granted, t.holds[i-1].granted)
		}
		all = append(all, &h.begin, &h.end)
	}
	for i, m := range all {
		if i > 0 {
			m.notBefore(all[i-1].first)
		}
		if m.first.From > m.last.To {
			return fmt.Errorf("%v must be after %v", m.last, m.first)
		}
	}
	for i := len(all) - 2; i >= 0; i-- {
		all[i].notAfter(all[i+1].last)
	}
	return nil
}

// explain looks for a hold, or for a request that may be one, at each refusal.
func (t *timeline) explain() error {
	byEnd := func(a, b Event) int { return cmp.Compare(a.To, b.To) }
	slices.SortFunc(t.refused, byEnd)
	slices.SortFunc(t.maybe, byEnd)
	accounted := -1 // the gap before this hold
	for _, r := range t.refused {
		next, _ := slices.BinarySearchFunc(t.holds, r.From, func(h *hold, at time.Duration) int {
			return cmp.Compare(h.end.last.To, at)
		})
		if next == accounted || next < len(t.holds) && t.holds[next].begin.first.From <= r.To {
			continue
		}
		free := time.Duration(math.MinInt64)
		if next > 0 {
			free = t.holds[next-1].end.first.From
		}
		if !t.take(free, r.To) {
			return fmt.Errorf("nobody can have held the name: %v", r)
		}
		accounted = next
	}
	return nil
}

// take uses up the request without an answer that is over first, of those that can be between two moments. Both moments
// are later in each call than in the one before.
func (t *timeline) take(from, to time.Duration) bool {
	for len(t.maybe) > 0 && t.maybe[0].To < from {
		t.maybe = t.maybe[1:]
	}
	i := slices.IndexFunc(t.maybe, func(m Event) bool { return m.From <= to })
	if i < 0 {
		return false
	}
	copy(t.maybe[1:], t.maybe[:i])
	t.maybe = t.maybe[1:]
	return true
}
