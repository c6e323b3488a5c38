package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// told are events of the name "n" in text, such as "1-2 a granted 5, 3-4 b refused". "3-" is one without an end.
func told(text string) (events []Event) {
	for line := range strings.SplitSeq(text, ", ") {
		e := Event{Name: "n", To: Never}
		times, rest, _ := strings.Cut(line, " ")
		_, _ = fmt.Sscanf(times, "%d-%d", &e.From, &e.To)
		e.Client, rest, _ = strings.Cut(rest, " ")
		e.What = What(slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(rest+" ", w+" ") }))
		_, _ = fmt.Sscan(strings.TrimPrefix(rest, e.What.String()), &e.Fence)
		events = append(events, e)
	}
	return events
}

// What each rule allows and refuses. TestTheCheckAgreesWithASearch has the rest.
func TestHistoriesOfLocks(t *testing.T) {
	for _, row := range []struct{ what, events, wrong string }{
		{"a waiter is granted during the release", "1-2 a granted 5, 3-9 b granted 6, 6-8 a released 5", ""},
		{"refused while the grant is under way", "1-5 a granted 5, 2-3 b refused", ""},
		{"lost, then another's", "1-2 a granted 5, 5-7 a lost 5, 3-6 b granted 6", ""},
		{"refused until the lease has ended", "1-2 a granted 5, 5-9 a lost 5, 6-7 b refused", ""},
		{"a release finds that the hold is over", "1-2 a granted 5, 4-8 a not held 5, 5-6 b granted 6", ""},
		{"an unknown release that was done", "1-2 a granted 5, 3- a maybe released 5, 4-5 b granted 6", ""},
		{"an unknown release that is done late", "1-2 a granted 5, 3-9 a maybe released 5, 4-5 b refused", ""},
		{"kept over a resume", "1-2 a granted 5, 3-4 a kept 5, 3-4 b refused, 5-6 a released 5", ""},
		{"kept before it is lost", "1-2 a granted 5, 3-7 a kept 5, 4-8 a lost 5, 5-6 b granted 6", ""},
		{"an unknown grant that was", "1- a maybe granted, 2-3 b refused, 4-5 b granted 6", ""},
		{"an unknown grant that was not", "1- a maybe granted, 2-3 b granted 6", ""},

		{
			"two holders", "1-2 a granted 5, 3-4 b granted 6, 5-6 b released 6",
			"b granted (fence 6) between 3ns and 4ns, though this did not end: n: a granted (fence 5)",
		},
		{
			"two holders, and the first releases later", "1-2 a granted 5, 3-4 b granted 6, 5-6 a released 5",
			"must be after n: a released (fence 5)",
		},
		{"a fence given twice", "1-2 a granted 5, 3-4 a released 5, 5-6 b granted 5", "one fence"},
		{"a lower fence", "1-2 a granted 5, 3-4 a released 5, 5-6 b granted 4", "n: b granted (fence 4)"},
		{"released twice", "1-2 a granted 5, 3-4 a released 5, 5-6 a released 5", "released twice"},
		{
			"a release that was told and not done", "1-2 a granted 5, 3-4 a released 5, 6-7 b refused",
			"nobody can have held",
		},
		{"the end of what nobody was granted", "3-4 a released 5", "nobody was granted this"},
		{"kept after another's grant", "1-2 a granted 5, 3-4 b granted 6, 5-6 a kept 5, 7-8 a lost 5", "b granted"},
		{"kept after a release", "1-2 a granted 5, 3-4 a released 5, 5-6 a kept 5", "a kept"},
		{
			"a release that took another's hold",
			"1-2 a granted 5, 3-4 a lost 5, 5-6 b granted 6, 7-8 a released 5", "a released",
		},
		{
			"an unknown grant that was gone before another's",
			"0-0 c maybe granted, 1-2 a granted 5, 5-6 a lost 5, 7-8 b refused", "b refused",
		},
	} {
		err := Check(told(row.events))
		if (err == nil) != (row.wrong == "") {
			t.Errorf("%s: got %v", row.what, err)
		} else if err != nil && (!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), row.wrong)) {
			t.Errorf("%s: got %v, want it to say %q", row.what, err, row.wrong)
		}
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	for _, event := range []string{"2-1 a granted 5", "1-2 a granted 0", "1-2 a released 0", "1-2 a refused 5"} {
		if err := Check(told(event)); err == nil || errors.Is(err, ErrBroken) {
			t.Errorf("%s: got %v", event, err)
		}
	}
}

// Names have nothing to do with each other.
func TestNamesAreCheckedByThemselves(t *testing.T) {
	for seed := range uint64(10) {
		r, broken := rand.New(rand.NewPCG(seed, 0)), 0
		var events []Event
		for n := range 20 {
			one := life(r)
			if n%5 == 1 {
				one = spoil(r, one)
			}
			if Check(one) != nil {
				broken++
			}
			for i := range one {
				one[i].Name = fmt.Sprint("n", n)
				one[i].From, one[i].To = one[i].From+time.Hour, max(one[i].To, one[i].To+time.Hour)
			}
			events = append(events, one...)
		}
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		err := Check(events)
		if got := strings.Count(fmt.Sprint(err), ErrBroken.Error()); got != broken {
			t.Errorf("seed %d: %d names are broken, want %d: %v", seed, got, broken, err)
		}
	}
}
