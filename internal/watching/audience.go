package watching

import (
	"slices"
	"sync/atomic"
)

// audience are those who watch a name. Who is to be told of an end keeps the seats of that moment, so none of those is
// changed: more are put behind them, and when many are left, the others move. So a Watcher more or less costs the same
// however many there are.
type audience struct {
	seats []*seat           // in the order in which they came
	of    map[Watcher]*seat // those that are not left; nil while there are few
	empty int               // seats that were left
}

// seat is the place of a Watcher until it leaves.
type seat struct {
	to   Watcher
	left atomic.Bool
}

// fewSeats are looked at one by one.
const fewSeats = 8

func (a *audience) len() int { return len(a.seats) - a.empty }

// some are a few of them.
func (a *audience) some() (few []Watcher) {
	for i := 0; i < len(a.seats) && len(few) < fewSeats; i++ {
		if s := a.seats[i]; !s.left.Load() {
			few = append(few, s.to)
		}
	}
	return few
}

// find is the seat of a Watcher, nil if it has none.
func (a *audience) find(to Watcher) *seat {
	if a.of != nil {
		return a.of[to]
	}
	i := slices.IndexFunc(a.seats, func(s *seat) bool { return s.to == to && !s.left.Load() })
	if i < 0 {
		return nil
	}
	return a.seats[i]
}

func (a *audience) add(to Watcher) {
	if a.find(to) != nil {
		return
	}
	s := &seat{to: to}
	a.seats = append(a.seats, s)
	if a.of != nil {
		a.of[to] = s
	} else if len(a.seats) > fewSeats {
		a.of = make(map[Watcher]*seat)
		for _, s := range a.seats {
			if !s.left.Load() {
				a.of[s.to] = s
			}
		}
	}
}

func (a *audience) remove(to Watcher) {
	s := a.find(to)
	if s == nil {
		return
	}
	s.left.Store(true)
	delete(a.of, to)
	if a.empty++; 2*a.empty < len(a.seats) {
		return
	}
	taken := make([]*seat, 0, a.len())
	for _, s := range a.seats {
		if !s.left.Load() {
			taken = append(taken, s)
		}
	}
	a.seats, a.empty = taken, 0
	if len(taken) <= fewSeats {
		a.of = nil
	}
}
