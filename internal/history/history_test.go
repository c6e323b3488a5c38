package history_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/lock"
)

// names are those of all events, the oldest first.
func names(l *history.Log) (all []string) {
	byNumber := map[uint64]string{}
	var numbers []uint64
	l.Each(func(_ time.Time, e *history.Event) {
		byNumber[e.Number()] = e.Name
		numbers = append(numbers, e.Number())
	})
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		all = append(all, byNumber[n])
	}
	return all
}

func TestALogHasTheLastEventsAndKnowsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := history.New(3)
		add := func(name string) { l.Add(time.Now(), history.Event{What: history.Granted, Name: name}) }
		for i := range 3 {
			time.Sleep(time.Second)
			add(fmt.Sprint(i))
		}
		if got := names(l); !slices.Equal(got, []string{"0", "1", "2"}) || !l.Reaches().Equal(began) {
			t.Errorf("before it is full it has %v since %v", got, l.Reaches())
		}
		time.Sleep(time.Second)
		add("3")
		if got := names(l); !slices.Equal(got, []string{"1", "2", "3"}) || l.Reaches().Sub(began) != 2*time.Second {
			t.Errorf("after that it has %v since %v", got, l.Reaches().Sub(began))
		}
		l.Each(func(at time.Time, e *history.Event) {
			if want := fmt.Sprint(at.Sub(began).Seconds() - 1); e.Name != want {
				t.Errorf("%s is of %v", e.Name, at.Sub(began))
			}
		})
	})
}

func TestALogOfNoEventsHasNone(t *testing.T) {
	l := history.New(0)
	l.Add(time.Now(), history.Event{What: history.Granted, Name: "n"})
	if got := names(l); got != nil {
		t.Errorf("it has %v", got)
	}
}

func TestALongAnnotationIsCut(t *testing.T) {
	l := history.New(1)
	l.Add(time.Now(), history.Event{What: history.Granted, Annotation: "x" + strings.Repeat("ä", 300)})
	l.Each(func(_ time.Time, e *history.Event) {
		if len(e.Annotation) != 255 || !utf8.ValidString(e.Annotation) {
			t.Errorf("it is remembered as %q", e.Annotation)
		}
	})
}

func TestEventsAreAddedWhileOthersLook(t *testing.T) {
	l := history.New(100)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				l.Add(time.Now(), history.Event{What: history.Granted, Name: "n", Owner: "o"})
				l.Reaches()
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			l.Each(func(_ time.Time, e *history.Event) {
				if e.Name != "n" || e.Owner != "o" {
					t.Errorf("half an event: %+v", e)
				}
			})
		}
	})
	wg.Wait()
	if got := len(names(l)); got != 100 {
		t.Errorf("%d events are left", got)
	}
}

func TestAnEventIsAddedWithoutMemory(t *testing.T) {
	l, who, now := history.New(1000), &history.Client{Name: "c"}, time.Now()
	allocs := testing.AllocsPerRun(1000, func() {
		l.Add(now, history.Event{What: history.Granted, Name: "n", Owner: "o", Client: who, Kind: lock.Fair, Annotation: "a"})
	})
	if allocs != 0 {
		t.Errorf("it takes %v allocations", allocs)
	}
}

func BenchmarkAdd(b *testing.B) {
	l, who, now := history.New(100_000), &history.Client{Name: "c"}, time.Now()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Add(now, history.Event{What: history.Granted, Name: "n", Owner: "o", Client: who, Annotation: "a"})
		}
	})
}

func BenchmarkEach(b *testing.B) {
	l, now := history.New(100_000), time.Now()
	for i := range 100_000 {
		l.Add(now, history.Event{What: history.Granted, Name: fmt.Sprint("name-", i), Owner: "o"})
	}
	found := 0
	for b.Loop() {
		l.Each(func(_ time.Time, e *history.Event) {
			if e.Name == "name-77777" {
				found++
			}
		})
	}
}
