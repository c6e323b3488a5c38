package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/history"
)

// Busy says how much a name was used in a period that ends now.
type Busy struct {
	Name     string        `json:"name"`
	Waiters  int           `json:"waiters,omitempty"`  // now
	Longest  time.Duration `json:"longest,omitempty"`  // the longest that one of them has waited
	Holders  int           `json:"holders,omitempty"`  // now
	Waiting  float64       `json:"waiting,omitempty"`  // how many waited, on average
	Held     float64       `json:"held,omitempty"`     // how many held it, on average
	Turnover float64       `json:"turnover,omitempty"` // grants in a second
}

// Order is what the busiest names are ordered by.
type Order uint8

// The orders.
const (
	ByWaiting Order = iota
	ByHeld
	ByTurnover
)

// compare puts the busier one first.
func (o Order) compare(a, b Busy) int {
	more := map[Order]int{
		ByWaiting: cmp.Compare(b.Waiting, a.Waiting), ByHeld: cmp.Compare(b.Held, a.Held),
		ByTurnover: cmp.Compare(b.Turnover, a.Turnover),
	}[o]
	return cmp.Or(more, cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held), strings.Compare(a.Name, b.Name))
}

// Busiest are the names that were used most in a period, at all replicas.
type Busiest struct {
	Names    []Busy
	Memories []Memory
	Asking
}

// BusiestEverywhere lists the names with a prefix that were used most in a period that ends now.
func (d *Inspector) BusiestEverywhere(ctx context.Context, prefix string, window time.Duration, by Order,
	size int,
) (Busiest, error) {
	pages, asking, err := d.askAll(ctx, Question{
		About: AboutBusiest, Size: size, Filter: Filter{Prefix: prefix}, Period: Period{Since: window}, Order: by,
	})
	all := make(map[string]Busy)
	for _, p := range pages {
		for _, b := range p.Busiest {
			sum := all[b.Name]
			all[b.Name] = Busy{
				b.Name, sum.Waiters + b.Waiters, max(sum.Longest, b.Longest), sum.Holders + b.Holders,
				sum.Waiting + b.Waiting, sum.Held + b.Held, sum.Turnover + b.Turnover,
			}
		}
	}
	names := slices.SortedFunc(maps.Values(all), by.compare)
	return Busiest{names[:min(len(names), size)], memories(pages, window), asking}, err
}

// usage adds up how names are used in a period that ends now.
type usage struct {
	byName map[string]*Busy
	window time.Duration
}

func (u usage) of(name string) *Busy {
	b := u.byName[name]
	if b == nil {
		b = &Busy{Name: name}
		u.byName[name] = b
	}
	return b
}

// part is the fraction of the period that is covered by something that took so long and ended at this age.
func (u usage) part(took, age time.Duration) float64 {
	return max(min(took+age, u.window)-age, 0).Seconds() / u.window.Seconds()
}

// add counts an event of the period.
func (u usage) add(e history.Use, age time.Duration) {
	b := u.byName[string(e.Name)] // most are there: then no string is allocated
	if b == nil {
		b = u.of(string(e.Name))
	}
	switch e.What {
	case history.Granted:
		b.Turnover += 1 / u.window.Seconds()
		b.Waiting += u.part(e.Waited, age)
	case history.Left:
		b.Waiting += u.part(e.Waited, age)
	case history.Released, history.HandedOver, history.Lost:
		b.Held += u.part(e.Held, age)
	default: // what moved away is counted where it is now
	}
}

// now counts who holds a name and waits for it at this moment.
func (u usage) now(b *Busy, k Known) {
	b.Waiters = k.Waiting
	for _, w := range k.Waiters {
		b.Longest = max(b.Longest, w.Age)
		b.Waiting += u.part(w.Age, 0)
	}
	for _, h := range k.Holders {
		if h.TTL > 0 { // else it is over, if nobody renewed it
			b.Holders++
			b.Held += u.part(h.Age, 0)
		}
	}
}

// busiest are the names that were used most here, among those with events in the period, those of the requests that
// wait longest, and those that are held longest.
func (d *Inspector) busiest(q Question) Knowledge {
	k := Knowledge{Memory: d.memory(), Others: d.others.others()}
	u := usage{make(map[string]*Busy), max(q.Period.Since, time.Millisecond)}
	if k.Memory.Reach > 0 {
		u.window = min(u.window, k.Memory.Reach)
	}
	now := time.Now()
	d.History.Each(q.Filter.Prefix, func(at time.Time, e history.Use) {
		if age := now.Sub(at); age <= u.window {
			u.add(e, age)
		}
	})
	for _, w := range d.Local.Requests(Filter{Prefix: q.Filter.Prefix}, maxPage) {
		u.of(w.Name)
	}
	for _, name := range d.Local.Oldest(maxPage) {
		if strings.HasPrefix(name, q.Filter.Prefix) {
			u.of(name)
		}
	}
	all := make([]Busy, 0, len(u.byName))
	for name, b := range u.byName { // one at a time: there may be as many names as events, each with a page of holders
		u.now(b, d.knowName(name, maxPage, maxPage))
		all = append(all, *b)
	}
	slices.SortFunc(all, q.Order.compare)
	k.Busiest = all[:min(len(all), q.Size)]
	return k
}
