package broker_test

import (
	"fmt"
	"slices"
	"time"

	events "github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/inspect"
)

var happened = map[events.What]string{
	events.Granted: "granted", events.Queued: "queued", events.Left: "left", events.Released: "released",
	events.HandedOver: "handed over", events.Lost: "lost", events.Forced: "forced",
	events.LimitChanged: "limit changed", events.MovedAway: "moved away", events.Resumed: "resumed",
}

// history says what happened to a name, and when. All replicas tell the same, in small pages.
func (s *scenario) history(name string) {
	var told []string
	for _, at := range s.replicas {
		var lines []string
		for next, more := "", true; more; more = next != "" {
			page, err := at.b.EventsEverywhere(s.t.Context(), name, inspect.Period{}, next, 2)
			s.check(err)
			if next = page.Next; page.Answered != page.Asked || len(page.Memories) != page.Asked || len(page.Events) > 2 {
				s.fatalf("a page is %+v", page)
			}
			for _, e := range page.Events {
				lines = append(lines, s.event(e))
			}
		}
		if told != nil && !slices.Equal(lines, told) {
			s.fatalf("told %q and %q", lines, told)
		}
		told = lines
	}
	s.said = append(s.said, told...)
}

func (s *scenario) event(e inspect.Event) string {
	client, why := "", ""
	if e.Client != nil {
		if client = e.Client.Name; client != "" && e.Client.Peer != client+":1" {
			s.fatalf("a client is told as %+v", e.Client)
		}
	}
	if e.Why != nil {
		why = words(e.Why.Cause, if0("by", e.Why.By), if0("as", e.Why.Text))
	}
	if e.Fence > s.fences[e.Name] {
		s.fatalf("fence %d", e.Fence)
	}
	return words(e.Age.Round(time.Millisecond).String(), client, happened[e.What], if0("at", e.Replica), e.Kind.String(),
		if0("permits", e.Permits), if0("lease", e.Lease), if0("waited", e.Waited), if0("held", e.Held), why,
		noted(e.Annotation))
}

// busiest says which names were used most in the last minute.
func (s *scenario) busiest(by string) {
	order := map[string]inspect.Order{
		"waiting": inspect.ByWaiting, "held": inspect.ByHeld, "turnover": inspect.ByTurnover,
	}[by]
	var told []string
	for _, at := range s.replicas {
		found, err := at.b.BusiestEverywhere(s.t.Context(), "", time.Minute, order, 3)
		s.check(err)
		var lines []string
		for _, b := range found.Names {
			lines = append(lines, words(b.Name, if0("waiters", b.Waiters), if0("longest", b.Longest), if0("holders", b.Holders),
				fmt.Sprintf("waiting %.2f held %.2f turnover %.2f", b.Waiting, b.Held, b.Turnover)))
		}
		if told != nil && !slices.Equal(lines, told) {
			s.fatalf("told %q and %q", lines, told)
		}
		told = lines
	}
	s.said = append(s.said, told...)
}
