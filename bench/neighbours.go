package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
)

// neighbourCallers is how many requests the client has under way.
const neighbourCallers = 8

// settling is how long a flood runs before the client beside it is measured.
const settling = 2 * time.Second

func runNeighbours(args []string) error {
	flags := flag.NewFlagSet("bench neighbours", flag.ExitOnError)
	run := flags.Duration("run", 3*time.Second, "how long each speed is measured")
	rounds := flags.Int("rounds", 1, "how often; the median counts")
	only := flags.String("floods", "", "only floods whose `name` this regular expression matches")
	profiles := flags.String("profiles", "", "write a CPU profile of lockd beside each flood into this `directory`")
	within := flags.Duration("timeout", 20*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	return withLockd(*within, func(ctx context.Context, program *program) error {
		out := newTable("flood", "keeps", "alone, pairs/s", "beside, pairs/s", "cores: lockd", "Redis", "flood", "lost")
		for _, f := range floods {
			if !wanted.MatchString(f.name) {
				continue
			}
			var all []neighbour
			for range *rounds {
				n, err := flooded(ctx, program, f.name, *run, *profiles)
				if err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				all = append(all, n)
			}
			of := func(value func(neighbour) float64) float64 { return medianOf(all, value) }
			out.add(f.name,
				ratio(of(func(n neighbour) float64 { return n.flooded / n.alone })),
				whole(of(func(n neighbour) float64 { return n.alone })),
				whole(of(func(n neighbour) float64 { return n.flooded })),
				ratio(of(func(n neighbour) float64 { return n.lockd })),
				ratio(of(func(n neighbour) float64 { return n.redis })),
				ratio(of(func(n neighbour) float64 { return n.flood })),
				whole(of(func(n neighbour) float64 { return n.lost })))
		}
		fmt.Printf("\nA client with %d requests at a time beside a flood\n\n", neighbourCallers)
		out.print()
		return nil
	})
}

// neighbour is how fast a client is, in pairs a second, and how many processors the others are busy with beside it.
type neighbour struct {
	alone, flooded      float64
	lockd, redis, flood float64
	lost                float64 // leases that lockd lost
}

// flooded measures a client before, beside and after a flood, with servers of their own.
func flooded(ctx context.Context, lockd *program, flood string, run time.Duration,
	profiles string,
) (n neighbour, err error) {
	redis, err := startRedis(ctx)
	if err != nil {
		return n, err
	}
	defer redis.kill()
	server, err := lockd.start(redis.addr, fmt.Sprintf("LOCKD_OPS_PPROF=%t", profiles != ""))
	if err != nil {
		return n, err
	}
	defer server.kill()
	c, err := client.Dial(server.addr, client.WithName("neighbour"))
	if err != nil {
		return n, err
	}
	defer func() { _ = c.Close() }()
	e := env{redis: redis, lockd: []*process{server}}
	if _, err := neighbourSpeed(ctx, c, run/2); err != nil { // warms up
		return n, err
	}
	before, err := neighbourSpeed(ctx, c, run)
	if err != nil {
		return n, err
	}
	others, err := startBare(floodCommand, flood, server.addr)
	if err != nil {
		return n, err
	}
	time.Sleep(settling)
	if n.flooded, err = n.measureFlooded(ctx, e, c, others, run, profiles, flood); err != nil {
		others.kill()
		return n, err
	}
	others.kill()
	time.Sleep(settling)
	after, err := neighbourSpeed(ctx, c, run)
	if err != nil {
		return n, err
	}
	m, err := metricsOf(server)
	n.lost = m.sum(metrics{}, "lockd_lost_total") - m[`lockd_lost_total{reason="session_ended"}`] // the flood's own
	n.alone = (before + after) / 2
	return n, err
}

// measureFlooded is the speed of the client beside a flood, and who uses how much CPU time meanwhile.
func (n *neighbour) measureFlooded(
	ctx context.Context, e env, c *client.Client, flood *process, run time.Duration, profiles, name string,
) (float64, error) {
	before, err := e.usage(flood.pid())
	if err != nil {
		return 0, err
	}
	profiled := make(chan error, 1)
	go func() {
		if profiles == "" {
			profiled <- nil
			return
		}
		path := filepath.Join(profiles, strings.Map(inFileName, name))
		profiled <- fetchProfile(e.lockd[0], path+".lockd.pprof", run)
	}()
	begun := time.Now()
	speed, err := neighbourSpeed(ctx, c, run)
	if err != nil {
		return 0, err
	}
	after, err := e.usage(flood.pid())
	if err != nil {
		return 0, fmt.Errorf("the flood has ended: %w", err)
	}
	took := time.Since(begun).Seconds()
	n.lockd = (after.lockd - before.lockd).Seconds() / took
	n.redis = (after.redis - before.redis).Seconds() / took
	n.flood = (after.client - before.client).Seconds() / took
	return speed, <-profiled
}

// neighbourSpeed is how many pairs in a second the client makes.
func neighbourSpeed(ctx context.Context, c *client.Client, run time.Duration) (float64, error) {
	var pairs atomic.Int64
	var callers sync.WaitGroup
	errs := make(chan error, neighbourCallers)
	begun := time.Now()
	for i := range neighbourCallers {
		callers.Go(func() {
			for time.Since(begun) < run {
				l, err := c.Lock(ctx, fmt.Sprint("neighbour:", i))
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					errs <- err
					return
				}
				pairs.Add(1)
			}
		})
	}
	callers.Wait()
	close(errs)
	return float64(pairs.Load()) / time.Since(begun).Seconds(), <-errs
}
