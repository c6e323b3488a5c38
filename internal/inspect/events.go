package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/limits"
)

// Period is a period of the past. A zero field is no bound.
type Period struct {
	Since time.Duration `json:"since,omitempty"` // how long ago
	Until time.Duration `json:"until,omitempty"`
}

func (p Period) has(age time.Duration) bool {
	return age >= p.Until && (p.Since == 0 || age <= p.Since)
}

// Event is what happened to a name at a replica.
type Event struct {
	Key     string        `json:"key"`
	Replica string        `json:"replica"`
	Age     time.Duration `json:"age"`
	Session string        `json:"-"`
	history.Event
}

func (e Event) key() string { return e.Key }

func (e Event) passes(Filter) bool { return true }

// Events is a page of what happened to a name, with how far back the replicas remember.
type Events struct {
	Events   []Event
	Next     string
	Memories []Memory
	Asking
}

// EventsEverywhere lists what happened to a name at all replicas, the oldest first by their clocks, and says after
// which event the next page begins.
func (d *Inspector) EventsEverywhere(ctx context.Context, name string, p Period, after string,
	size int,
) (Events, error) {
	if err := d.CheckName(name); err != nil {
		return Events{}, err
	}
	q := Question{About: AboutEvents, Names: []string{name}, Period: p, After: after, Size: size}
	var all Events
	var pages []Knowledge
	var err error
	asked := time.Now()
	all.Events, all.Next, all.Asking, err = everywhere(ctx, d, q, func(k Knowledge) []Event {
		pages = append(pages, k)
		return k.Events
	})
	for i := range all.Events {
		e := &all.Events[i]
		e.Name, e.Session = name, sessionOf(e.Owner)
		e.Age += time.Since(asked) // the answers of other replicas may have come later
	}
	all.Memories = memories(pages, p.Since)
	return all, err
}

// moment is where an event stands in the order over all replicas.
type moment struct {
	at      int64
	replica string
	number  uint64
}

func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.at, o.at), strings.Compare(m.replica, o.replica), cmp.Compare(m.number, o.number))
}

// key is a text with the same order.
func (m moment) key() string { return fmt.Sprintf("%020d\x00%s\x00%020d", m.at, m.replica, m.number) }

// momentAt is the moment with a key that key made. Any other text is somewhere in the order, too.
func momentAt(key string) (m moment) {
	at, rest, _ := strings.Cut(key, "\x00")
	replica, number, _ := strings.Cut(rest, "\x00")
	m.at, _ = strconv.ParseInt(at, 10, 64)
	m.number, _ = strconv.ParseUint(number, 10, 64)
	m.replica = replica
	return m
}

// happened is a page of what happened here to the names of a question.
func (d *Inspector) happened(q Question) Knowledge {
	found, reached := collect(q, func(after string, size int) []Event { return d.events(q, momentAt(after), size) })
	return Knowledge{Events: found, Reached: reached, Memory: d.memory(), Others: d.others.others()}
}

// events are the first ones after a moment, at most size.
func (d *Inspector) events(q Question, after moment, size int) (page []Event) {
	if len(q.Names) == 0 {
		return nil
	}
	type placed struct {
		moment
		history.Event
	}
	now := time.Now()
	first := limits.First[placed]{Most: size, Compare: func(a, b placed) int { return a.compare(b.moment) }}
	d.History.Of(q.Names[0], func(at time.Time, p history.Past) {
		m := moment{at.UnixNano(), d.ID, p.Number}
		if q.Period.has(now.Sub(at)) && m.compare(after) > 0 && first.Wants(placed{moment: m}) {
			first.Add(placed{m, p.Event()}) // all events may be of this name: only those of the page are decoded
		}
	})
	all, _ := first.All()
	for _, p := range all {
		page = append(page, Event{
			Key: p.key(), Replica: d.Replica, Age: max(now.Sub(time.Unix(0, p.at)), 1), Event: p.Event,
		})
	}
	return page
}
