package broker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/request"
)

// memories say how far back replicas remember, or since when they are gone.
func (w *world) memories(p inspect.Period) string {
	w.t.Helper()
	found, err := w.b.EventsEverywhere(w.t.Context(), "job", p, "", 10)
	must(w.t, err)
	var all []string
	for _, m := range found.Memories {
		all = append(all, fmt.Sprintf("%s %v %v", m.Name, m.Reach, m.Gone))
	}
	return strings.Join(all, ", ")
}

// What a replica remembered is missed as long as others remember that time, whoever is asked.
func TestAReplicaThatIsGoneIsMissed(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.named("a")
		time.Sleep(90 * time.Second)
		b := w.named("b")
		time.Sleep(100 * time.Second)
		const all = "a 3m10s 0s, b 1m40s 0s, test 3m10s 0s"
		if got := a.memories(inspect.Period{}); got != all {
			t.Errorf("all are there: %s", got)
		}
		must(t, a.b.Close(context.Background()))
		time.Sleep(80 * time.Second)
		for _, other := range []*world{w, b} {
			if got, want := other.memories(inspect.Period{}), "a 0s 1m20s, b 3m0s 0s, test 4m30s 0s"; got != want {
				t.Errorf("one is gone: %s, want %s", got, want)
			}
		}
		if got := b.memories(inspect.Period{Since: 9 * time.Second}); strings.Contains(got, "a 0s") {
			t.Errorf("it was gone by then: %s", got)
		}
		must(t, w.b.Close(context.Background()))
		time.Sleep(10 * time.Minute)
		if got := b.memories(inspect.Period{}); !strings.HasPrefix(got, "a 0s 11m20s, b 13m0s 0s") {
			t.Errorf("it was there when the other one began: %s", got)
		}
	})
}

func TestAReplicaMayRememberNothing(t *testing.T) {
	cfg := testConfig()
	cfg.History = 0
	inWorldWith(t, cfg, func(w *world) {
		c := w.as("busy")
		c.take("job")
		time.Sleep(time.Second)
		if got := w.memories(inspect.Period{}); got != "test 0s 0s" {
			t.Errorf("got %s", got)
		}
		found, err := w.b.BusiestEverywhere(w.t.Context(), "", time.Minute, inspect.ByHeld, 10)
		must(t, err)
		if n := found.Names; len(n) != 1 || n[0].Holders != 1 || n[0].Turnover != 0 {
			t.Errorf("what is held now is told all the same: %+v", n)
		}
	})
}

// Those who ask are told the same time for what happened, though a replica does not answer.
func TestTheTimeThatAnAnswerTakesCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		lonely := startOn(w.t, testConfig(), silentStore{w.store})
		lonely.as("a").take("job")
		found, err := lonely.b.EventsEverywhere(w.t.Context(), "job", inspect.Period{}, "", 10)
		must(t, err)
		if len(found.Events) != 1 || found.Answered != 1 || found.Asked != 2 ||
			found.Events[0].Age.Round(time.Millisecond) != time.Second {
			t.Errorf("after a second it is told %+v", found)
		}
	})
}

// Names with very many events are those that are told, and a page has no more than it should.
func TestTheBusiestNamesAreBounded(t *testing.T) {
	inWorldWith(t, brokerRemembers(100), func(w *world) {
		c := w.as("busy")
		for i := range 2000 {
			c.takeAs(request.Acquire{Name: name(i)})
			if i%100 == 99 {
				time.Sleep(time.Second)
			}
		}
		found, err := w.b.BusiestEverywhere(w.t.Context(), name(19), time.Minute, inspect.ByHeld, 50)
		must(t, err)
		other := func(b inspect.Busy) bool { return !strings.HasPrefix(b.Name, name(19)) }
		if names := found.Names; len(names) != 50 || slices.ContainsFunc(names, other) {
			t.Errorf("%d names: %+v", len(names), names)
		}
	})
}

func brokerRemembers(events int) broker.Config {
	cfg := testConfig()
	cfg.History = events
	return cfg
}
