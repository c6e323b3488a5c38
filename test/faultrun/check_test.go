package faultrun

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/test/faultrun/history"
)

// rules are what a store promises.
type rules struct {
	// lease is how long a name may stay taken after the last that a client knows of it: the longest lease, and a call
	// to the store that was under way.
	lease time.Duration
	// window is how long after a fault two holds may be valid, if the store forgot the first in that fault.
	window time.Duration
	// votes says that somebody can be refused although nobody holds the name: because of another who is refused, too.
	votes bool
}

// verdict is what became of a record.
type verdict struct {
	events    []history.Event
	forgotten int // holds that the store forgot, and somebody else was granted the name
	kept      int // times that a hold went on in another stream
	longest   time.Duration
	decided   time.Duration // what it took to decide about the events
	errs      []error
}

func (v *verdict) fail(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

// check decides whether a record can be that of correct locks.
func (r *record) check(rules rules) *verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &verdict{}
	slices.SortFunc(r.holds, func(a, b hold) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.got, b.got)) })
	forgotten := map[nameAndFence]fault{}
	for i, h := range r.holds {
		for _, next := range r.holds[i+1:] {
			if next.name != h.name {
				break
			}
			r.compare(v, rules, forgotten, h, next)
		}
	}
	v.forgotten = len(forgotten)
	v.events = r.events(rules, forgotten)
	for _, e := range v.events {
		if e.What == history.Kept {
			v.kept++
		}
	}
	begun := time.Now()
	if err := history.Check(v.events); err != nil {
		v.errs = append(v.errs, err)
	}
	v.decided = time.Since(begun)
	return v
}

// compare looks at two holds of a name, of which the second was told later.
func (r *record) compare(v *verdict, rules rules, forgotten map[nameAndFence]fault, h, next hold) {
	if next.asked >= h.got && next.fence <= h.fence {
		v.fail("fences do not rise: %v, then %v", h, next)
	}
	both := min(h.sure, next.sure) - next.got
	if both <= 0 {
		return
	}
	older := h
	if next.fence < h.fence {
		older = next
	}
	for _, f := range r.faults {
		if f.forgets && older.got <= f.to && next.got >= f.from && next.got+both <= f.to+rules.window {
			forgotten[older.key()] = f
			v.longest = max(v.longest, both)
			return
		}
	}
	v.fail("two holders for %v: %v and %v", both, h, next)
}

// nameAndFence are one hold. Two names may have the same fence: it is a time, and one call grants many.
type nameAndFence struct {
	name  string
	fence uint64
}

func (h hold) key() nameAndFence { return nameAndFence{h.name, h.fence} }

func (h hold) String() string {
	return fmt.Sprintf("%s has %s with fence %d from %v to %v (asked at %v, %v at %v)",
		h.client, h.name, h.fence, h.got, h.sure, h.asked, h.how, h.ended)
}

// events are the record as package history needs it.
func (r *record) events(rules rules, forgotten map[nameAndFence]fault) []history.Event {
	var events []history.Event
	for _, h := range r.holds {
		end := history.Event{Client: h.client, Name: h.name, What: h.how, Fence: h.fence, From: h.sure, To: h.ended}
		if h.how == history.Lost || h.how == history.MaybeReleased {
			end.To += rules.lease // until then the lease is in Redis
		}
		if f, yes := forgotten[h.key()]; yes {
			end.What, end.From = history.Lost, max(h.asked, f.from)
		}
		events = append(events, h.keptUntil(end.From)...)
		end.To = max(end.From, end.To)
		events = append(events, end,
			history.Event{Client: h.client, Name: h.name, What: history.Granted, Fence: h.fence, From: h.asked, To: h.got})
	}
	for _, e := range r.others {
		switch {
		case e.What == history.MaybeGranted:
			e.To += rules.lease
		case rules.votes || r.troubled(e, rules.lease): // a lease may be left of which no client knows
			continue
		}
		events = append(events, e)
	}
	return events
}

// keptUntil are the times at which the session of a hold went on in another stream, and the hold with it: the holder
// was told so, and took it for valid afterwards.
func (h hold) keptUntil(end time.Duration) (events []history.Event) {
	for _, m := range h.kept {
		if m.from > h.got && m.to < min(h.sure, end) {
			events = append(events, history.Event{
				Client: h.client, Name: h.name, What: history.Kept, Fence: h.fence,
				From: m.from, To: m.to,
			})
		}
	}
	return events
}

// troubled says whether something failed in the time of an event, or a lease before it.
func (r *record) troubled(e history.Event, lease time.Duration) bool {
	return slices.ContainsFunc(r.faults, func(f fault) bool { return f.from <= e.To && e.From <= f.to+lease })
}

func (v *verdict) err() error { return errors.Join(v.errs...) }

// A store that lost its data forgot a hold of one name. A hold of another name with the same fence had been released
// before.
func TestAForgottenHoldIsThatOfItsName(t *testing.T) {
	const s = time.Second
	r := &record{
		faults: []fault{{what: "data are lost", from: 10 * s, to: 11 * s, forgets: true}},
		holds: []hold{
			{client: "1", name: "a", fence: 7, asked: 1 * s, got: 2 * s, sure: 12 * s, how: history.Lost, ended: 12 * s},
			{client: "2", name: "a", fence: 8, asked: 10 * s, got: 11 * s, sure: 13 * s, how: history.Released, ended: 14 * s},
			{client: "1", name: "b", fence: 7, asked: 1 * s, got: 2 * s, sure: 3 * s, how: history.Released, ended: 4 * s},
			{client: "2", name: "b", fence: 9, asked: 4 * s, got: 5 * s, sure: 6 * s, how: history.Released, ended: 7 * s},
		},
	}
	v := r.check(rules{window: s, lease: s})
	if err := errors.Join(v.errs...); err != nil || v.forgotten != 1 {
		t.Errorf("%d were forgotten, %v", v.forgotten, err)
	}
}

// What stands still is a fault for as long as it does. What answers in time is none.
func TestAStandstillIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		r := newRecord()
		stop := r.watch("it", s, func() bool {
			time.Sleep(s / 4)
			if now := r.now(); now > 10*s && now < 11*s {
				time.Sleep(2 * s)
			}
			return true
		})
		time.Sleep(20 * s)
		stop()
		if len(r.faults) != 1 || r.faults[0].from > 11*s || r.faults[0].to < 12*s || r.faults[0].to > 14*s {
			t.Errorf("got %+v, want one from 10 s to 13 s at most", r.faults)
		}
	})
}
