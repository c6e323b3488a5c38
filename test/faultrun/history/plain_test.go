package history

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The check says of each history what a search through all orders says: of those of correct locks, of those with
// something made wrong, and of any events.
func TestTheCheckAgreesWithASearch(t *testing.T) {
	const histories, most = 20000, 5_000_000
	r := rand.New(rand.NewPCG(5, 0))
	possible, needed := 0, 0
	for i := range histories {
		var events []Event
		switch i % 5 {
		case 0:
			events = any10(r)
		case 1:
			events = life(r)
		case 2:
			events = gaps(r)
		default:
			events = spoil(r, life(r))
		}
		want, steps := search(events, most)
		if steps > most {
			t.Fatalf("history %d is too long for the search: %d events", i, len(events))
		}
		err := Check(events)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrBroken) {
			t.Fatalf("history %d: the search says %v, and the check %v, of\n%v", i, want, err, events)
		}
		if i%5 == 1 && err != nil {
			t.Fatalf("history %d is of a correct lock: %v, of\n%v", i, err, events)
		}
		if want {
			possible++
			if without := slices.DeleteFunc(events, maybeGranted); Check(without) != nil {
				needed++ // requests without an answer
			}
		}
	}
	t.Logf("%d of %d histories are possible, %d need requests without an answer", possible, histories, needed)
	if possible < histories/4 || possible > histories*3/4 || needed < histories/20 {
		t.Errorf("the histories are too much alike to show anything")
	}
}

// A search tries each set of requests without an answer wherever it has placed a grant with too great a fence, and
// finds that only when the grant before must have been. It does not decide what one crowd did that waits for a name.
func TestWhatACrowdDidIsDecided(t *testing.T) {
	const most = 500_000
	if _, steps := search(crowd(1), most); steps <= most {
		t.Errorf("a search decides it in %d steps: this test shows nothing", steps)
	}
	for _, n := range []int{1, 2000} {
		events := crowd(n)
		if err := Check(events); err != nil {
			t.Errorf("%d events: %v", len(events), err)
		}
		last := slices.IndexFunc(events, func(e Event) bool { return e.What == Released && e.Fence == uint64(12*n-1) })
		if err := Check(slices.Delete(events, last, last+1)); !errors.Is(err, ErrBroken) {
			t.Errorf("%d events, one release was not done: %v", len(events), err)
		}
	}
}

// crowd is what happens n times: twelve wait for a name and are granted it, others have no answer, and somebody is
// refused when all have released it.
func crowd(n int) []Event {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	var events []Event
	add := func(what What, fence, from, to int) {
		events = append(events, Event{
			Name: "n", What: what, Fence: uint64(fence), From: time.Duration(from), To: time.Duration(to),
		})
	}
	for i := range n {
		begun := 1000 * i
		for place := range 12 { // who asked first is granted it last
			at := begun + 100 + 20*place
			add(Granted, 12*i+place+1, begun+12-place, at+5)
			add(Released, 12*i+place+1, at+10, at+15)
		}
		for range 24 {
			add(MaybeGranted, 0, begun+r.IntN(100), begun+4000)
		}
		add(Refused, 0, begun+900, begun+901)
	}
	return events
}

func maybeGranted(e Event) bool { return e.What == MaybeGranted }

// any10 are up to ten events that have nothing to do with each other.
func any10(r *rand.Rand) []Event {
	var events []Event
	for range 1 + r.IntN(10) {
		e := Event{Name: "n", What: What(r.IntN(len(words))), From: time.Duration(r.IntN(8))}
		if e.To = e.From + time.Duration(r.IntN(8)); r.IntN(16) == 0 {
			e.To = Never
		}
		if e.fenced() {
			e.Fence = uint64(1 + r.IntN(4))
		}
		events = append(events, e)
	}
	return events
}

// life is what a correct lock did: a few events in turn, each seen as something that took longer.
func life(r *rand.Rand) []Event {
	var events []Event
	s, over := state{}, uint64(0) // the last hold that is over
	wide := 1 + r.IntN(8)
	for now := range 4 + r.IntN(12) {
		e := Event{Name: "n", What: What(r.IntN(len(words)))}
		switch {
		case e.What == Granted:
			e.Fence = s.last + 1 + uint64(r.IntN(2))
		case e.fenced():
			if e.Fence = s.holder; r.IntN(8) == 0 {
				e.Fence = over
			}
		}
		ok, next := s.step(e)
		if !ok || e.fenced() && e.Fence == 0 {
			continue
		}
		if next.holder == 0 && s.holder != 0 {
			over = s.holder
		}
		s = next
		at := time.Duration(2 * now)
		e.From, e.To = at-time.Duration(r.IntN(wide)), at+time.Duration(r.IntN(wide))
		switch {
		case e.What == MaybeGranted:
			e.To += time.Duration(r.IntN(10))
		case e.What == MaybeReleased && r.IntN(2) == 0:
			e.To = Never
		}
		events = append(events, e)
	}
	return events
}

// gaps are some holds with refusals between them, and requests without an answer that may account for these.
func gaps(r *rand.Rand) []Event {
	var events []Event
	add := func(what What, fence uint64, from, long int) {
		at := time.Duration(from)
		events = append(events, Event{
			Name: "n", What: what, Fence: fence, From: at, To: at + time.Duration(r.IntN(long)),
		})
	}
	for i := range 4 {
		begun := 10 * i
		add(Granted, uint64(i+1), begun, 2)
		add(Lost, uint64(i+1), begun+2, 6+30*r.IntN(2))
		for range r.IntN(3) {
			add(Refused, 0, begun+2+r.IntN(8), 3)
		}
		for range r.IntN(3) {
			add(MaybeGranted, 0, begun+r.IntN(10), 25)
		}
	}
	r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	return events
}

// spoil makes one thing or two wrong, as a rule.
func spoil(r *rand.Rand, events []Event) []Event {
	for range 1 + r.IntN(2) {
		if len(events) == 0 {
			return nil
		}
		i := r.IntN(len(events))
		e := &events[i]
		switch r.IntN(6) {
		case 0:
			events = slices.Delete(events, i, i+1)
		case 1:
			events = append(events, *e)
		case 2:
			d := time.Duration(r.IntN(9) - 4)
			if e.From += d; e.To != Never {
				e.To += d
			}
		case 3:
			e.To = e.From
		case 4:
			if e.fenced() {
				e.Fence = uint64(1 + r.IntN(6))
			}
		default:
			if n := What(r.IntN(len(words))); (Event{What: n}).fenced() == e.fenced() {
				e.What = n
			}
		}
	}
	return events
}
