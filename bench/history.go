package main

import (
	"context"
	"flag"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/client"
)

// runHistory compares the same lockd with no events, with as many as it remembers by default, and once more with no
// events, which shows how far apart equal ones are. Two processes of one program may differ by 5 % for as long as they
// live, so they are started anew several times.
func runHistory(args []string) error {
	flags := flag.NewFlagSet("bench history", flag.ExitOnError)
	run := flags.Duration("run", time.Second, "how long each is measured in a round")
	rounds := flags.Int("rounds", 4, "how often they are measured in turns, by one start")
	starts := flags.Int("starts", 8, "how often they are started; the median of all rounds counts")
	within := flags.Duration("timeout", 20*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	p := plan{rounds: *rounds, warmUp: full.warmUp, run: *run}
	return withServers(*within, func(ctx context.Context, redis *process, program *program) error {
		e := env{redis: redis}
		printMachine(ctx, e)
		all := make(map[int][]peerPairs)
		for range *starts {
			if err := measureHistory(ctx, e, program, p, all); err != nil {
				return err
			}
		}
		printHistory(all)
		return nil
	})
}

// historyCallers are how many callers history is measured with.
var historyCallers = []int{1, 64, manyCallers}

// measureHistory adds the rounds of one start.
func measureHistory(ctx context.Context, e env, program *program, p plan, all map[int][]peerPairs) error {
	var peers []peer
	for _, of := range []struct {
		name    string
		setting []string
	}{
		{"no events", []string{"LOCKD_REDIS_PREFIX=a:", "LOCKD_HISTORY_EVENTS=0"}},
		{"history", []string{"LOCKD_REDIS_PREFIX=b:"}}, // no replicas of each other
		{"no events, again", []string{"LOCKD_REDIS_PREFIX=c:", "LOCKD_HISTORY_EVENTS=0"}},
	} {
		lockd, err := program.start(e.redis.addr, of.setting...)
		if err != nil {
			return err
		}
		defer lockd.stop()
		peers = append(peers, peer{of.name, ours, 4, at(lockd, func(int) (locker, error) {
			return sessionsOf(1, func(int) (*client.Client, error) { return client.Dial(lockd.addr) })
		})})
	}
	for _, callers := range historyCallers {
		r, err := comparePairs(ctx, e, p, peers, callers)
		if err != nil {
			return err
		}
		if all[callers] == nil {
			all[callers] = r
			continue
		}
		for i, sum := range all[callers] {
			all[callers][i].runs = append(sum.runs, r[i].runs...)
		}
	}
	return nil
}

func printHistory(all map[int][]peerPairs) {
	short := newTable("callers", "peer", "pairs/s / no events", "CPU of lockd", "wanted, pairs/s")
	for _, callers := range historyCallers {
		r := all[callers]
		printPairs("Lock + unlock", callers, r)
		for _, other := range r[1:] {
			short.add(strconv.Itoa(callers), other.peer.name,
				ratio(besides(other, r[0], pairRate)), ratio(besides(other, r[0], lockdCPU)), "at least 0.98")
		}
	}
	short.print()
}
