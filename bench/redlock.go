package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The peers of that comparison.
const (
	onOne         = "lockd, one master"
	onFive        = "lockd, 5 masters"
	redsyncOnFive = "redsync, 5 masters"
)

var echoOne = fmt.Sprintf(echoName, 1)

func runRedLock(args []string) error {
	flags := flag.NewFlagSet("bench redlock", flag.ExitOnError)
	run := flags.Duration("run", 800*time.Millisecond, "how long each peer is measured in a round")
	rounds := flags.Int("rounds", 5, "how often; the median counts")
	only := flags.String("peers", "", "only peers whose `name` this regular expression matches")
	profiles := flags.String("profiles", "",
		"write CPU profiles of lockd and of its callers into this `directory`, from one long round")
	within := flags.Duration("timeout", 10*time.Minute, "give up after this time")
	callers := []int{1, 2, 4, 5, 6, 8, 16, 64}
	flags.Func("callers", "how many callers, such as 1,16", func(list string) error {
		callers = nil
		for one := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(one)
			if err != nil || n < 1 {
				return fmt.Errorf("not a number of callers: %q", one)
			}
			callers = append(callers, n)
		}
		return nil
	})
	_ = flags.Parse(args) // it exits
	p := plan{rounds: *rounds, warmUp: full.warmUp, run: *run, profiles: *profiles}
	if p.profiles != "" {
		p.rounds, p.run = 1, profiledRun
	}
	var err error
	if p.peers, err = regexp.Compile(*only); err != nil {
		return err
	}
	return withLockd(*within, func(ctx context.Context, program *program) error {
		return compareMasters(ctx, program, p, callers)
	})
}

// compareMasters starts what is needed, measures, and prints.
func compareMasters(ctx context.Context, program *program, p plan, callers []int) error {
	t := &topologies{}
	defer t.stop()
	masters, err := t.startMasters(ctx, 6)
	if err != nil {
		return err
	}
	one, five := masters[5], masters[:5]
	settings := []string{"LOCKD_REDLOCK_QUARANTINE=0s", fmt.Sprintf("LOCKD_OPS_PPROF=%t", p.profiles != "")}
	alone, err := program.start(one.addr, settings...)
	if err != nil {
		return err
	}
	t.stops = append(t.stops, alone.stop)
	over, err := program.launch([]string{"--redlock", strings.Join(addrsOf(five), ",")}, settings...)
	if err != nil {
		return err
	}
	t.stops = append(t.stops, over.stop)
	time.Sleep(2 * time.Second) // all members have been met
	e := env{redis: one, lockd: []*process{alone}}
	printMachine(ctx, e)
	peers := p.chosen([]peer{
		{onOne, ours, 4, through(alone, one)},
		{onFive, ours, 0, through(over, five...)},
		{redsyncOnFive, library, 0, func(e env, callers int) (locker, error) {
			l, err := redsyncOver(addrsOf(five))(e, callers)
			return elsewhere{l, nil, five}, err
		}},
		{echoOne, echoed, 0, echoWith(1)},
	})
	var all [][]peerPairs
	for _, n := range callers {
		if n > 1 {
			peers = slices.DeleteFunc(peers, func(p peer) bool { return p.kind == echoed })
		}
		results, err := comparePairs(ctx, e, p, peers, n)
		if err != nil {
			return err
		}
		printPairs("Lock + unlock over masters", n, results)
		all = append(all, results)
	}
	printMasters(callers, all)
	return nil
}

// printMasters puts what RedLock is meant to reach beside what was measured. The floor is what one caller cannot do
// without: a message to a gRPC server that answers it, and all that redsync asks the masters.
func printMasters(callers []int, all [][]peerPairs) {
	fmt.Print("\nRedLock over 5 masters, by the number of callers\n\n")
	t := newTable("callers", "pairs/s", "redsync, pairs/s", "speed / redsync", "p50", "one master, p50",
		"p50 / one master", "floor, p50", "p50 / floor")
	for i, results := range all {
		five, one, sync, echo := named(results, onFive), named(results, onOne), named(results, redsyncOnFive),
			named(results, echoOne)
		if five == nil || one == nil || sync == nil {
			continue
		}
		cells := []string{
			strconv.Itoa(callers[i]), whole(rate(*five)), whole(rate(*sync)), ratio(rate(*five) / rate(*sync)),
			short(p50(*five)), short(p50(*one)), times(p50(*five), p50(*one)),
		}
		if echo != nil {
			least := p50(*echo) + p50(*sync)
			cells = append(cells, short(least), times(p50(*five), least))
		} else {
			cells = append(cells, "-", "-")
		}
		t.add(cells...)
	}
	t.print()
}

func p50(p peerPairs) time.Duration {
	return medianOf(p.runs, func(r pairResult) time.Duration { return r.p50 })
}
