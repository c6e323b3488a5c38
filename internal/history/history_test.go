package history_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"runtime"
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

// names are those of all events.
func names(l *history.Log) (all []string) {
	l.Each("", func(_ time.Time, u history.Use) { all = append(all, string(u.Name)) })
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
		l.Each("", func(at time.Time, u history.Use) {
			if want := fmt.Sprint(at.Sub(began).Seconds() - 1); string(u.Name) != want {
				t.Errorf("%s is of %v", u.Name, at.Sub(began))
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

// event is one as a session of some length has them.
func event(name string) history.Event {
	return history.Event{
		Name: name, What: history.Released, Kind: lock.Fair, Owner: "0d3e6f0a-98c1-4b7e-8a55-3f1c2d4b5a69:#1234567",
		Client: &history.Client{Name: "billing", Peer: "10.11.12.13:54321"}, Fence: 1 << 40,
		Held: 12345678 * time.Nanosecond,
	}
}

// longest is one with texts as long as they can be.
func longest(name string) history.Event {
	long := strings.Repeat("x", 600)
	e := event(name + long[:512-len(name)])
	e.Owner, e.Annotation = lock.Owner(long[:170]), long
	e.Client = &history.Client{Name: long[:128], Peer: long[:60], Identity: long[:128]}
	return e
}

func TestAnEventIsRememberedWithAllThatIsKnown(t *testing.T) {
	l, began := history.New(5000), time.Now()
	full := history.Event{
		Name: "n", Owner: "o", Client: &history.Client{Name: "c", Peer: "p", Identity: "i"}, Annotation: "a",
		Why: &history.Why{Cause: "cause", By: "by", Text: "text"}, Fence: math.MaxUint64, Waited: -1,
		Held: math.MaxInt64, Lease: 3, Permits: math.MaxUint32, Kind: lock.Semaphore, What: history.Lost,
	}
	var want []history.Event
	for i := range 1000 {
		e := []history.Event{full, {What: history.Left}, event("n"), longest("n")}[i%4]
		e.Name = fmt.Sprint(e.Name, i%3)
		l.Add(began.Add(-time.Duration(i)), e) // nobody knows who comes first
		if e.Number = uint64(i); e.Name == "n0" {
			e.Annotation = e.Annotation[:min(256, len(e.Annotation))]
			want = append(want, e)
		}
	}
	l.Of("n0", func(at time.Time, p history.Past) {
		e := p.Event()
		if !reflect.DeepEqual(e, want[0]) || !at.Equal(began.Add(-time.Duration(e.Number))) {
			t.Errorf("of %v it is told %+v, want %+v", began.Sub(at), e, want[0])
		}
		want = want[1:]
	})
	if len(want) > 0 {
		t.Errorf("%d are missing", len(want))
	}
}

// Nobody has names of such a length, but what is told of them must be text.
func TestTextsOfAnyLengthAreRemembered(t *testing.T) {
	l, name := history.New(10), "xx"+strings.Repeat("ä", 50_000)
	l.Add(time.Now(), history.Event{Name: name, What: history.Granted, Owner: "o"})
	if got := names(l); len(got) != 1 || len(got[0]) != 65_534 || !utf8.ValidString(got[0]) {
		t.Errorf("of %d names the first one has %d bytes", len(got), len(got[0]))
	}
}

func TestThoseOfAPrefixAreFound(t *testing.T) {
	l := history.New(10)
	for _, name := range []string{"", "a", "ab", "b", "abc", "ba"} {
		l.Add(time.Now(), history.Event{Name: name, Owner: "b"})
	}
	for prefix, want := range map[string][]string{"ab": {"ab", "abc"}, "ba": {"ba"}, "abcd": nil, "aa": nil} {
		var got []string
		l.Each(prefix, func(_ time.Time, u history.Use) { got = append(got, string(u.Name)) })
		if !slices.Equal(got, want) {
			t.Errorf("with %q begin %q", prefix, got)
		}
	}
}

// heap is how much memory is in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// An event with long texts pushes out one, as any other, and takes the memory of its texts until it is pushed out.
func TestLongTextsTakeNoMoreThanTheirShare(t *testing.T) {
	const events, short, long = 20_000, 165, 1500
	before := heap()
	l := history.New(events)
	add := func(e history.Event, n int) {
		for range n {
			l.Add(time.Now(), e)
		}
	}
	takes := func(longOnes, most int) {
		t.Helper()
		all, theirs := 0, 0
		l.Each("", func(_ time.Time, u history.Use) {
			all++
			if bytes.HasPrefix(u.Name, []byte("theirs")) {
				theirs++
			}
		})
		if all != events || theirs != longOnes {
			t.Errorf("of %d events %d are long, want %d", all, theirs, longOnes)
		}
		if got := heap() - before; got > most*events {
			t.Errorf("an event takes %d bytes, want at most %d", got/events, most)
		}
		if got := l.Bytes(); got < uint64(most*events/2) || got > uint64(most*events) {
			t.Errorf("it says that %d events take %d bytes", events, got)
		}
	}
	add(event("mine"), events+1)
	takes(0, short)
	add(longest("theirs"), events/2)
	takes(events/2, (short+long)/2)
	add(longest("theirs"), events)
	takes(events, long)
	add(event("mine"), 2*events) // there is a little more memory than for so many
	takes(0, short)
	runtime.KeepAlive(l)
}

func TestALongAnnotationIsCut(t *testing.T) {
	l := history.New(1)
	l.Add(time.Now(), history.Event{What: history.Granted, Annotation: "x" + strings.Repeat("ä", 300)})
	l.Of("", func(_ time.Time, p history.Past) {
		e := p.Event()
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
			l.Of("n", func(_ time.Time, p history.Past) {
				e := p.Event()
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

// A look sees the events of when it began, even if they are pushed out meanwhile.
func TestALookIsThatOfAMoment(t *testing.T) {
	const events = 2000
	l := history.New(events)
	fill := func(name string, n int) {
		for range n {
			l.Add(time.Now(), event(name))
		}
	}
	fill("old", events)
	looked := 0
	l.Each("", func(_ time.Time, u history.Use) {
		if string(u.Name) != "old" {
			t.Fatalf("the %d. event is of %q", looked, u.Name)
		}
		looked++
		fill("new", 10)
	})
	if now := len(slices.Compact(names(l))); looked != events || now != 1 {
		t.Errorf("it saw %d, and now there are those of %d names", looked, now)
	}
}

func TestAnEventIsAddedWithoutMemory(t *testing.T) {
	l, now, e := history.New(1000), time.Now(), event("n")
	e.Annotation = "x" + strings.Repeat("ä", 300)
	add := func() {
		for range 3000 { // it is full
			l.Add(now, e)
		}
	}
	if allocs := testing.AllocsPerRun(100, add); allocs != 0 { // the first one does not count
		t.Errorf("3000 take %v allocations", allocs)
	}
}

func BenchmarkAdd(b *testing.B) {
	l, now, e := history.New(100_000), time.Now(), event("orders/customer-00012345")
	for range 200_000 { // it is full
		l.Add(now, e)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Add(now, e)
		}
	})
}

func BenchmarkLook(b *testing.B) {
	l, now := history.New(100_000), time.Now()
	for i := range 100_000 {
		l.Add(now, event(fmt.Sprint("orders/customer-", i)))
	}
	b.Run("of a name", func(b *testing.B) {
		for b.Loop() {
			l.Of("orders/customer-77777", func(_ time.Time, p history.Past) { p.Event() })
		}
	})
	b.Run("of all", func(b *testing.B) {
		for b.Loop() {
			l.Each("", func(time.Time, history.Use) {})
		}
	})
}
