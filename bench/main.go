// Bench compares lockd with the libraries that lock with Redis, side by side in one run on one machine: how many
// uncontended lock and unlock pairs they do, and how fast a lock that many wait for goes from one holder to the next.
//
// README.md in this directory says what is measured and how each peer is configured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// plan is how much is measured.
type plan struct {
	rounds    int
	warmUp    time.Duration
	run       time.Duration // of one peer in one round
	callers   []int
	hotRounds int
	hotRun    time.Duration
}

const hotCallers = 64

var (
	full = plan{
		rounds: 5, warmUp: 150 * time.Millisecond, run: 800 * time.Millisecond, callers: []int{1, 64, 256},
		hotRounds: 3, hotRun: 1500 * time.Millisecond,
	}
	quick = plan{
		rounds: 1, warmUp: 30 * time.Millisecond, run: 150 * time.Millisecond, callers: []int{1, 64, 256},
		hotRounds: 1, hotRun: 400 * time.Millisecond,
	}
)

func main() {
	isQuick := flag.Bool("quick", false, "a smoke test: the numbers mean little")
	within := flag.Duration("timeout", 4*time.Minute, "give up after this time")
	flag.Parse()
	p := full
	if *isQuick {
		p = quick
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *within, fmt.Errorf("not done within %v", *within))
	defer cancel()
	if err := compare(ctx, p); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // the deferred calls have nothing left to do
	}
}

// compare starts what is needed, measures, and prints.
func compare(ctx context.Context, p plan) error {
	redis, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	lockd, err := startLockd(ctx, redis.addr)
	if err != nil {
		return err
	}
	defer lockd.stop()
	env := env{redis: redis.addr, lockd: lockd.addr}
	printMachine(ctx, env)
	for _, callers := range p.callers {
		results, err := comparePairs(ctx, env, p, callers)
		if err != nil {
			return err
		}
		printPairs(callers, results)
	}
	results, err := compareHot(ctx, env, p)
	if err != nil {
		return err
	}
	printHot(results)
	return nil
}
