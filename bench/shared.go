package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// sharers is how many callers of three replicas want one name.
const sharers = 96

// shareName measures how replicas share one name that all their callers want.
func shareName(ctx context.Context, e env, run time.Duration) error {
	l, err := lockdOn(hotReplicas, hotReplicas)(e, sharers)
	if err != nil {
		return err
	}
	defer l.close()
	before, err := scriptsOf(ctx, addrsOf(e.masters))
	if err != nil {
		return err
	}
	h := newHot(l, sharers)
	r, err := h.measure(ctx, run)
	if err != nil {
		return err
	}
	after, err := scriptsOf(ctx, addrsOf(e.masters))
	if err != nil {
		return err
	}
	all, shares := 0, make([]int, hotReplicas)
	for caller, n := range h.grants {
		shares[caller%hotReplicas] += n
		all += n
	}
	mean := time.Duration(h.waits.Load() / int64(max(all, 1)))
	fmt.Printf("\nOne name, callers: %d over %d replicas, held for %v\n\n", sharers, hotReplicas, hold)
	out := newTable("what", "value")
	out.add("grants a second", whole(r.rate))
	out.add("gap p50, p99", short(r.p50)+", "+short(r.p99))
	out.add("share of a replica: least, most", percent(slices.Min(shares), all)+", "+percent(slices.Max(shares), all))
	what := "scripts for a grant"
	if len(e.masters) > 1 {
		what += ", at each master"
	}
	out.add(what, ratio((after-before)/float64(max(all, 1))/float64(len(e.masters))))
	out.add("wait: mean, longest", short(mean)+", "+short(r.longest))
	out.add("longest / mean", ratio(float64(r.longest)/math.Max(float64(mean), 1)))
	out.add("most/least grants to a caller", ratio(r.unfair))
	out.print()
	return nil
}

func percent(n, of int) string {
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(of, 1)))
}

// scriptsOf is how many scripts some masters have run.
func scriptsOf(ctx context.Context, masters []string) (all float64, err error) {
	for _, addr := range masters {
		c := redis.NewClient(&redis.Options{Addr: addr})
		n, err := scriptsAt(ctx, c)
		_ = c.Close()
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

func scriptsAt(ctx context.Context, c *redis.Client) (float64, error) {
	text, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, rest, some := strings.Cut(text, "cmdstat_evalsha:calls=")
	if !some {
		return 0, nil
	}
	digits, _, _ := strings.Cut(rest, ",")
	return strconv.ParseFloat(digits, 64)
}
