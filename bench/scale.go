package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// scalePlan is how many there are, and for how long they are held.
type scalePlan struct {
	leases, sessions int
	hold             time.Duration
}

func runScale(args []string) error {
	var p scalePlan
	flags := flag.NewFlagSet("bench scale", flag.ExitOnError)
	flags.IntVar(&p.leases, "leases", 1_000_000, "auto leases to take and hold; 0 for none")
	flags.IntVar(&p.sessions, "sessions", 20_000, "sessions with a lease each to open; 0 for none")
	flags.DurationVar(&p.hold, "hold", time.Minute, "how long to hold them")
	within := flags.Duration("timeout", 40*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	debug.SetGCPercent(400)
	return withLockd(*within, func(ctx context.Context, program *program) error {
		for _, part := range []struct {
			n   int
			run func(context.Context, env, scalePlan) error
		}{{p.leases, scaleLeases}, {p.sessions, scaleSessions}} {
			if part.n == 0 {
				continue
			}
			err := onReplicas(ctx, program, 1, 1, func(ctx context.Context, e env) error { return part.run(ctx, e, p) },
				fmt.Sprintf("LOCKD_LIMITS_LOCKS_PER_SESSION=%d", max(10_000, share(p.leases))))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sessionTTL is lockd's default session.ttl.
const sessionTTL = 30 * time.Second

// holdFor holds what there is, and tells what that cost.
func holdFor(ctx context.Context, e env, d time.Duration) (h held, err error) {
	done := make(chan struct{})
	frozen := make(chan time.Duration, 1)
	go func() { frozen <- longestFreeze(done) }()
	defer func() {
		close(done)
		h.frozen = <-frozen
	}()
	if h.was, err = metricsOf(e.lockd[0]); err != nil {
		return h, err
	}
	if h.before, err = e.read(); err != nil {
		return h, err
	}
	fmt.Fprintf(os.Stderr, "holding for %v\n", d)
	h.is = h.was
	for begun, end := time.Now(), time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return h, context.Cause(ctx)
		case <-time.After(min(time.Second, time.Until(end))):
		}
		rss, err := rssOf(e.lockd[0].pid())
		if err != nil {
			return h, err
		}
		h.most = max(h.most, rss)
		if err := h.look(e, time.Since(begun)); err != nil {
			return h, err
		}
	}
	h.after, err = e.read()
	return h, err
}

// look reads lockd's metrics, some time after the beginning.
func (h *held) look(e env, after time.Duration) error {
	is, err := metricsOf(e.lockd[0])
	if err != nil {
		return err
	}
	if late := is.buckets(h.is, latenessSeries); !empty(late) && above(late, 1) > 0 {
		h.lastLate = after
	}
	h.is = is
	return nil
}

// latenessSeries is by how much renewals were late.
const latenessSeries = "lockd_renew_lateness_seconds"

// held is what was read while leases were held.
type held struct {
	before, after reading
	was, is       metrics
	most          int           // bytes that lockd had resident
	lastLate      time.Duration // after the beginning; when the last renewal was later than a second
	frozen        time.Duration // the longest time in which this program did not run
}

// tick is how often this program looks whether it runs.
const tick = 10 * time.Millisecond

// longestFreeze is by how much the longest sleep was too long: in that time the machine did nothing for anybody.
func longestFreeze(done <-chan struct{}) (longest time.Duration) {
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-done:
			return longest
		case <-time.After(tick):
			longest = max(longest, time.Since(last)-tick)
		}
	}
}

// rows adds to a table what lockd's metrics say of the time.
func (h held) rows(t *table) {
	redis, lockd, client := h.after.cores(h.before)
	t.add("held for", h.after.at.Sub(h.before.at).Round(time.Second).String())
	t.add("cores: lockd, Redis, client", lockd+", "+redis+", "+client)
	t.add("lockd RSS: at the end, most", mib(h.after.rss)+", "+mib(h.most))
	t.add("Redis RSS", mib(h.after.redis))
	grown := func(series string) float64 { return h.is.sum(h.was, series) }
	t.add("leases held, says lockd", whole(h.is.sum(metrics{}, "lockd_locks_held")))
	t.add("lost since the start", h.lost())
	const renewals = `lockd_renew_total{result="renewed"}`
	renewed := h.is[renewals] - h.was[renewals]
	t.add("renewals per second", whole(renewed/h.after.at.Sub(h.before.at).Seconds()))
	t.add("renewals that failed", whole(grown("lockd_renew_total")-renewed))
	late := h.is.buckets(h.was, latenessSeries)
	left := h.is.buckets(h.was, "lockd_lease_remaining_ratio_at_renew")
	if empty(late) || empty(left) {
		return // held for less than a third of the TTL
	}
	t.add("latest renewal, at most", lateness(most(late)))
	t.add("renewals later than a second, and until when",
		whole(above(late, 1))+", "+h.lastLate.Round(time.Second).String())
	t.add("longest freeze of this program", h.frozen.Round(time.Millisecond).String())
	t.add("validity left at a renewal, at least", fmt.Sprintf("%.2f of the TTL", least(left)))
}

// lost is how many leases lockd lost since it started, and why.
func (h held) lost() string {
	all := []string{whole(h.is.sum(metrics{}, "lockd_lost_total"))}
	for _, series := range slices.Sorted(maps.Keys(h.is)) {
		if reason, ok := strings.CutPrefix(series, "lockd_lost_total{reason="); ok && h.is[series] > 0 {
			all = append(all, strings.Trim(reason, `"}`)+" "+whole(h.is[series]))
		}
	}
	return strings.Join(all, ", ")
}

// lateness shows a time beside the TTL. The time is the limit of a bucket of lockd's histogram.
func lateness(seconds float64) string {
	if math.IsInf(seconds, 1) {
		return "more than 10s"
	}
	d := time.Duration(seconds * float64(time.Second))
	return fmt.Sprintf("%v late, %.3f of the TTL", d, d.Seconds()/sessionTTL.Seconds())
}
