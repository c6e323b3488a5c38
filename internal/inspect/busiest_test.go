package inspect

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/history"
)

// crowded is a replica where very many share each of many names.
type crowded struct {
	Local
	names int
	asked int
	used  []uint64 // bytes, before the first name and after the last one
}

func (c *crowded) Requests(Filter, int) (all []Waiter) {
	for i := range c.names {
		all = append(all, Waiter{Name: fmt.Sprint("name-", i)})
	}
	return all
}

func (*crowded) Oldest(int) []string { return nil }

func (c *crowded) Know(_ string, holders, waiters int) Known {
	if c.asked++; c.asked == 1 || c.asked == c.names {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		c.used = append(c.used, m.HeapAlloc)
	}
	k := Known{Holders: make([]Holder, holders), Waiters: make([]Waiter, waiters), Waiting: waiters}
	for i := range k.Holders {
		k.Holders[i] = Holder{TTL: time.Second, Age: time.Hour}
	}
	return k
}

// The busiest names are found by counting their holders and waiters, without keeping these.
func TestTheBusiestNamesTakeNoMemoryForTheirHolders(t *testing.T) {
	local := &crowded{names: 100}
	d := &Inspector{Config: Config{Local: local}}
	found := d.busiest(Question{About: AboutBusiest, Size: 10, Period: Period{Since: time.Minute}}).Busiest
	if len(found) != 10 || found[0].Holders != maxPage || found[0].Held != maxPage || found[0].Waiters != maxPage {
		t.Errorf("found %+v", found)
	}
	if used := int64(local.used[1]) - int64(local.used[0]); used > 4<<20 { //nolint:gosec // small
		t.Errorf("%d names of %d holders each take %d KiB", local.names, maxPage, used>>10)
	}
}

// A name may have had all events that are remembered. A page of them is decoded without the others.
func TestAPageOfABusyNameReadsNoOtherEvents(t *testing.T) {
	const many, size = 20_000, 10
	d := &Inspector{Config: Config{ID: "a", History: history.New(many)}}
	for i := range many {
		d.History.Add(time.Now(), history.Event{
			What: history.Granted, Name: "n", Owner: "session:#1", Annotation: "why", Waited: time.Duration(i),
			Client: &history.Client{Name: "client", Peer: "10.0.0.1:1", Identity: "billing"},
		})
	}
	var page []Event
	for _, after := range []moment{{}, {at: time.Now().Add(-time.Hour).UnixNano()}} {
		allocated := testing.AllocsPerRun(1, func() { page = d.events(Question{Names: []string{"n"}}, after, size) })
		if allocated > 1000 {
			t.Errorf("a page of %d of %d events allocates %v times", size, many, allocated)
		}
		for i, e := range page {
			if len(page) != size || e.Waited != time.Duration(i) || e.Client.Name != "client" {
				t.Fatalf("event %d of %d is %+v", i, len(page), e)
			}
		}
	}
}
