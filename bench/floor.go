package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// floorRow is a step that one caller measures: a lock, or what a lock cannot do without.
type floorRow struct {
	name  string
	open  func(env, int) (locker, error)
	l     locker
	times []time.Duration
}

// measureFloor takes short turns, so that what drifts hits all alike.
func measureFloor(ctx context.Context, e env, p plan) ([]*floorRow, error) {
	rows := []*floorRow{
		{name: "lock through lockd", open: lockdWith(1)},
		{name: "gRPC echo: one message, one answer", open: echoWith(1)},
		{name: "acquire script, asked directly", open: directly(pooled)},
		{name: "relay: both, and no more", open: relayWith(1)},
	}
	for _, r := range rows {
		var err error
		if r.l, err = r.open(e, 1); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		defer r.l.close()
	}
	for turn := range p.floorTurns {
		for _, r := range rows {
			times, err := lockTimes(ctx, r.l, p.floorRun)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			if turn > 0 { // the first one is the warm-up
				r.times = append(r.times, times...)
			}
		}
	}
	return rows, nil
}

// lockTimes locks and unlocks a free name for a while and returns how long each lock took.
func lockTimes(ctx context.Context, l locker, run time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, run+patience)
	defer cancel()
	name := newName()
	var times []time.Duration
	for end := time.Now().Add(run); ; {
		began := time.Now()
		if began.After(end) {
			return times, nil
		}
		unlock, err := l.lock(ctx, 0, name)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
		if err := unlock(ctx); err != nil {
			return nil, err
		}
	}
}

func printFloor(rows []*floorRow) {
	fmt.Print("\nOne caller: a lock beside what it cannot do without, in turns of the same run\n\n")
	t := newTable("step", "p50", "p99")
	for _, r := range rows {
		slices.Sort(r.times)
		t.add(r.name, short(quantile(r.times, 0.50)), short(quantile(r.times, 0.99)))
	}
	t.add("echo + script", short(echoAndScript(rows)), "")
	t.add("lock / (echo + script)", ratio(aboveFloor(rows)), "")
	t.add("lock / relay", ratio(float64(quantile(rows[0].times, 0.50))/float64(quantile(rows[3].times, 0.50))), "")
	t.print()
}

// echoAndScript is the p50 of what a lock cannot do without.
func echoAndScript(rows []*floorRow) time.Duration {
	return quantile(rows[1].times, 0.50) + quantile(rows[2].times, 0.50)
}

// aboveFloor is how many times as long as its floor a lock takes. The times are sorted.
func aboveFloor(rows []*floorRow) float64 {
	return float64(quantile(rows[0].times, 0.50)) / float64(echoAndScript(rows))
}
