package main

import (
	"context"
	"flag"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/client"
)

// historyCommand is the argument that measures what it costs to remember events.
const historyCommand = "history"

// runHistory compares the same lockd with no events and with as many as it remembers by default.
func runHistory(args []string) error {
	flags := flag.NewFlagSet("bench history", flag.ExitOnError)
	run := flags.Duration("run", 2*time.Second, "how long each is measured in a round")
	rounds := flags.Int("rounds", 15, "how often; the median counts")
	within := flags.Duration("timeout", 15*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	p := plan{rounds: *rounds, warmUp: full.warmUp, run: *run}
	return withServers(*within, func(ctx context.Context, redis *process, program *program) error {
		return measureHistory(ctx, redis, program, p)
	})
}

func measureHistory(ctx context.Context, redis *process, program *program, p plan) error {
	var both []peer
	for _, of := range []struct {
		name    string
		setting []string
	}{
		{"no events", []string{"LOCKD_REDIS_PREFIX=a:", "LOCKD_HISTORY_EVENTS=0"}},
		{"history", []string{"LOCKD_REDIS_PREFIX=b:"}}, // no replicas of each other
	} {
		lockd, err := program.start(redis.addr, of.setting...)
		if err != nil {
			return err
		}
		defer lockd.stop()
		both = append(both, peer{of.name, ours, 4, func(env, int) (locker, error) {
			l, err := sessionsOf(1, func(int) (*client.Client, error) { return client.Dial(lockd.addr) })
			return elsewhere{locker: l, lockd: []*process{lockd}}, err
		}})
	}
	e := env{redis: redis}
	printMachine(ctx, e)
	return compareHistory(ctx, e, p, both)
}

func compareHistory(ctx context.Context, e env, p plan, both []peer) error {
	short := newTable("callers", "pairs/s / no events", "CPU of lockd", "wanted, pairs/s")
	for _, callers := range []int{1, 64, manyCallers} {
		r, err := comparePairs(ctx, e, p, both, callers)
		if err != nil {
			return err
		}
		printPairs("Lock + unlock", callers, r)
		short.add(strconv.Itoa(callers),
			ratio(besides(r[1], r[0], func(r pairResult) float64 { return r.rate })),
			ratio(besides(r[1], r[0], func(r pairResult) float64 { return float64(r.cpu.lockd) })), "at least 0.98")
	}
	short.print()
	return nil
}
