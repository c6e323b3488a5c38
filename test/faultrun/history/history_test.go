package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// at is an event of client C with the name "n".
func at(from, to time.Duration, c string, what What, fence uint64) Event {
	return Event{Client: c, Name: "n", What: what, Fence: fence, From: from, To: to}
}

func TestHistoriesOfCorrectLocksAreAccepted(t *testing.T) {
	other := at(2, 3, "b", Granted, 1)
	other.Name = "m"
	for what, events := range map[string][]Event{
		"nothing": nil,
		"one after the other": {
			at(1, 2, "a", Granted, 5), at(3, 4, "a", Released, 5),
			at(5, 6, "b", Granted, 6),
		},
		"a waiter is granted during the release": {
			at(1, 2, "a", Granted, 5), at(3, 9, "b", Granted, 6),
			at(6, 8, "a", Released, 5),
		},
		"refused while held":                   {at(1, 2, "a", Granted, 5), at(3, 4, "b", Refused, 0)},
		"refused while the grant is under way": {at(1, 5, "a", Granted, 5), at(2, 3, "b", Refused, 0)},
		"another name":                         {at(1, 2, "a", Granted, 5), other},
		"lost, then another's": {
			at(1, 2, "a", Granted, 5), at(5, 7, "a", Lost, 5),
			at(3, 6, "b", Granted, 6),
		},
		"refused until the lease has ended": {
			at(1, 2, "a", Granted, 5), at(5, 9, "a", Lost, 5),
			at(6, 7, "b", Refused, 0),
		},
		"a release finds that the hold is over": {
			at(1, 2, "a", Granted, 5), at(4, 8, "a", NotHeld, 5),
			at(5, 6, "b", Granted, 6),
		},
		"told of a loss after a release": {
			at(1, 2, "a", Granted, 5), at(3, 4, "a", Released, 5),
			at(5, 6, "a", Lost, 5),
		},
		"an unknown release that was done": {
			at(1, 2, "a", Granted, 5), at(3, Never, "a", MaybeReleased, 5),
			at(4, 5, "b", Granted, 6),
		},
		"an unknown release that is done late": {
			at(1, 2, "a", Granted, 5), at(3, 9, "a", MaybeReleased, 5),
			at(4, 5, "b", Refused, 0),
		},
		"kept over a resume": {
			at(1, 2, "a", Granted, 5), at(3, 4, "a", Kept, 5),
			at(3, 4, "b", Refused, 0), at(5, 6, "a", Released, 5),
		},
		"kept twice, then lost": {
			at(1, 2, "a", Granted, 5), at(3, 4, "a", Kept, 5),
			at(5, 6, "a", Kept, 5), at(6, 9, "a", Lost, 5), at(7, 8, "b", Granted, 6),
		},
		"kept before it is lost": {
			at(1, 2, "a", Granted, 5), at(3, 7, "a", Kept, 5),
			at(4, 8, "a", Lost, 5), at(5, 6, "b", Granted, 6),
		},
		"an unknown grant that was": {
			at(1, Never, "a", MaybeGranted, 0), at(2, 3, "b", Refused, 0),
			at(4, 5, "b", Granted, 6),
		},
		"an unknown grant that was not": {at(1, Never, "a", MaybeGranted, 0), at(2, 3, "b", Granted, 6)},
		"an unknown grant long after its beginning": {
			at(1, 9, "a", MaybeGranted, 0), at(2, 3, "b", Granted, 6),
			at(4, 5, "b", Released, 6), at(6, 7, "c", Refused, 0),
		},
	} {
		if err := Check(events); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestHistoriesOfBrokenLocksAreRefused(t *testing.T) {
	held := at(1, 2, "a", Granted, 5)
	for what, events := range map[string][]Event{
		"two holders": {held, at(3, 4, "b", Granted, 6)},
		"two holders, and the first releases later": {held, at(3, 4, "b", Granted, 6), at(5, 6, "a", Released, 5)},
		"two holders, and the first loses it later": {held, at(3, 4, "b", Granted, 6), at(5, 6, "a", Lost, 5)},
		"two holders, one release without an answer": {
			held, at(3, 4, "b", Granted, 6),
			at(5, Never, "a", MaybeReleased, 5),
		},
		"two holders, one told that it was none": {held, at(3, 4, "b", Granted, 6), at(5, 6, "a", NotHeld, 5)},
		"two holders, the second any time later": {held, at(3, Never, "b", Granted, 6)},
		"refused after two holds, and the first without an end": {
			held, at(3, Never, "a", MaybeReleased, 5), at(4, 5, "b", Granted, 6), at(6, 7, "b", Released, 6),
			at(8, 9, "c", Refused, 0),
		},
		"a hold that was over before it was granted": {at(3, 4, "a", Granted, 5), at(1, 2, "a", Lost, 5)},
		"the end of what nobody was granted":         {held, at(3, 4, "a", NotHeld, 4)},
		"two refused, and one without an answer": {
			at(1, 3, "c", MaybeGranted, 0), at(2, 3, "a", Refused, 0), at(4, 5, "a", Granted, 5),
			at(6, 7, "a", Released, 5), at(8, 9, "b", Refused, 0),
		},
		"two holders after one without an answer": {at(0, 9, "c", MaybeGranted, 0), held, at(3, 4, "b", Granted, 6)},
		"the same fence again":                    {held, at(3, 4, "a", Released, 5), at(5, 6, "b", Granted, 5)},
		"kept after another's grant": {
			held, at(3, 4, "b", Granted, 6), at(5, 6, "a", Kept, 5),
			at(7, 8, "a", Lost, 5),
		},
		"kept with another fence": {held, at(3, 4, "a", Kept, 6), at(5, 6, "a", Released, 5)},
		"kept after a release":    {held, at(3, 4, "a", Released, 5), at(5, 6, "a", Kept, 5)},
		"kept, and granted to another before the end": {
			held, at(3, 4, "a", Kept, 5), at(5, 6, "b", Granted, 6),
			at(7, 8, "a", Kept, 5), at(9, 10, "a", Lost, 5),
		},
		"a lower fence":              {held, at(3, 4, "a", Released, 5), at(5, 6, "b", Granted, 4)},
		"a lower fence after a loss": {held, at(3, 4, "a", Lost, 5), at(5, 6, "b", Granted, 4)},
		"a lower fence after one without an answer": {
			held, at(3, Never, "a", MaybeReleased, 5),
			at(4, 9, "c", MaybeGranted, 0), at(5, 6, "b", Granted, 4),
		},
		"a release that was told and not done":      {held, at(3, 4, "a", Released, 5), at(5, 6, "b", Refused, 0)},
		"a loss that was told and was none":         {held, at(3, 4, "a", Lost, 5), at(5, 6, "b", Refused, 0)},
		"a hold that is refused its own release":    {held, at(3, 4, "a", NotHeld, 5), at(5, 6, "b", Refused, 0)},
		"refused before anybody asked":              {at(0, 0, "b", Refused, 0), held},
		"refused after an unknown release was done": {held, at(3, 4, "a", MaybeReleased, 5), at(5, 6, "b", Refused, 0)},
		"a release that took another's hold": {
			held, at(3, 4, "a", Lost, 5), at(5, 6, "b", Granted, 6),
			at(7, 8, "a", Released, 5),
		},
		"a release of what was released":               {held, at(3, 4, "a", Released, 5), at(5, 6, "a", Released, 5)},
		"a release of what nobody was granted":         {at(1, 2, "a", Released, 5)},
		"a grant before the end of validity of others": {held, at(6, 9, "a", Lost, 5), at(3, 5, "b", Granted, 6)},
		"an unknown request that ended while another held": {
			held, at(3, 4, "c", MaybeGranted, 0), at(5, 6, "a", Lost, 5), at(7, 8, "b", Refused, 0),
		},
		"an unknown grant that was gone before another's": {
			at(0, 0, "c", MaybeGranted, 0), held, at(5, 6, "a", Lost, 5), at(7, 8, "b", Refused, 0),
		},
		"a loss that took another's hold": {
			held, at(3, 4, "a", Lost, 5), at(5, 6, "b", Granted, 6), at(7, 8, "a", NotHeld, 5), at(9, 10, "c", Granted, 7),
		},
	} {
		if err := Check(events); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: got %v, want %v", what, err, ErrBroken)
		}
	}
}

func TestTheEventThatCannotHaveBeenIsNamed(t *testing.T) {
	held, released := at(1, 2, "a", Granted, 5), at(3, 4, "a", Released, 5)
	for _, row := range []struct {
		events []Event
		want   []string
	}{
		{
			[]Event{held, at(3, 4, "b", Granted, 6), at(5, 6, "b", Released, 6)},
			[]string{"b granted (fence 6)", "did not end: n: a granted (fence 5)"},
		},
		{
			[]Event{held, at(3, 4, "b", Granted, 6), at(5, 6, "a", Released, 5)},
			[]string{"b granted (fence 6)", "must be after n: a released (fence 5)"},
		},
		{[]Event{held, released, at(5, 6, "b", Granted, 5)}, []string{"one fence", "a granted", "b granted"}},
		{[]Event{held, released, released}, []string{"released twice", "fence 5"}},
		{[]Event{held, released, at(6, 7, "b", Refused, 0)}, []string{"nobody can have held", "b refused"}},
		{[]Event{released}, []string{"nobody was granted this", "a released (fence 5)"}},
	} {
		err := Check(row.events)
		for _, want := range row.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %q", err, want)
			}
		}
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	for _, e := range []Event{
		at(2, 1, "a", Granted, 5), at(1, 2, "a", Granted, 0), at(1, 2, "a", Released, 0), at(1, 2, "a", Refused, 5),
	} {
		if err := Check([]Event{e}); err == nil || errors.Is(err, ErrBroken) {
			t.Errorf("%v: got %v", e, err)
		}
	}
}

// TestRandomHistories has clients use some locks at random. Each thing happens at an instant, and is seen as something
// that took longer. Then one thing is made wrong.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(10) {
		events := random(rand.New(rand.NewPCG(seed, 0)), 800)
		if err := Check(events); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for what, spoil := range map[string]func(*Event){
			"a fence of before":  func(e *Event) { e.Fence = 1 },
			"a grant long after": func(e *Event) { e.From, e.To = e.From+time.Hour, e.To+time.Hour },
		} {
			spoiled := append([]Event{}, events...)
			for i := range spoiled { // one in the middle, that others follow
				if e := &spoiled[len(spoiled)/2+i]; e.What == Granted && e.Fence > 1 {
					spoil(e)
					break
				}
			}
			if err := Check(spoiled); !errors.Is(err, ErrBroken) {
				t.Errorf("seed %d: %s: got %v, want %v", seed, what, err, ErrBroken)
			}
		}
	}
}

// random is a history of correct locks, with losses, and one thing in ten without an answer.
func random(r *rand.Rand, n int) []Event {
	type lock struct{ holder, last uint64 }
	const names = 4
	locks := [names]lock{}
	events := make([]Event, 0, n)
	for i := range n {
		now := time.Duration(i) * time.Millisecond
		k := r.IntN(names)
		l := &locks[k]
		e := Event{Client: fmt.Sprint("client ", r.IntN(16)), Name: fmt.Sprint("n", k), Fence: l.holder}
		unknown := r.IntN(10) == 0
		switch {
		case l.holder == 0:
			l.last += 1 + uint64(r.IntN(3))
			l.holder = l.last
			e.What, e.Fence = Granted, l.holder
		case r.IntN(2) == 0:
			e.What, e.Fence = Refused, 0
			if unknown {
				e.What = MaybeGranted
			}
		default:
			e.What = []What{Released, Released, Lost, NotHeld}[r.IntN(4)]
			if unknown {
				e.What = MaybeReleased
			}
			l.holder = 0
		}
		spread := func() time.Duration { return time.Duration(r.IntN(int(10 * time.Millisecond))) }
		e.From, e.To = now-spread(), now+spread()
		switch {
		case e.What == MaybeGranted:
			e.To += 200 * time.Millisecond
		case e.What == MaybeReleased && r.IntN(4) == 0:
			e.To = Never
		}
		events = append(events, e)
	}
	return events
}
