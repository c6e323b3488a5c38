// Bench compares lockd with the libraries that lock with Redis, side by side in one run on one machine: how many
// uncontended lock and unlock pairs they do, and how fast a lock that many wait for goes from one holder to the next.
//
// With the argument scale it measures lockd alone, with very many leases and sessions. With the argument neighbours it
// measures how much of its speed a client keeps beside floods of others; with security, what identities cost.
//
// README.md in this directory says what is measured and how each peer is configured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
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
	// The floor is measured in turns. The first one does not count.
	floorTurns int
	floorRun   time.Duration // of one step in one turn
	peers      *regexp.Regexp
	profiles   string // a directory for CPU profiles, or empty
	served     bool   // count the allocations in lockd, too
	sdks       bool   // only the SDKs of other languages
}

// chosen are those that were asked for.
func (p plan) chosen(peers []peer) []peer {
	return slices.DeleteFunc(peers, func(peer peer) bool { return !p.peers.MatchString(peer.name) })
}

const hotCallers = 64

var (
	full = plan{
		rounds: 5, warmUp: 150 * time.Millisecond, run: 800 * time.Millisecond, callers: []int{1, 64, 256},
		hotRounds: 3, hotRun: 1500 * time.Millisecond, floorTurns: 21, floorRun: 150 * time.Millisecond,
	}
	quick = plan{
		rounds: 1, warmUp: 30 * time.Millisecond, run: 150 * time.Millisecond, callers: []int{1, 64, 256},
		hotRounds: 1, hotRun: 400 * time.Millisecond, floorTurns: 3, floorRun: 100 * time.Millisecond,
	}
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// others are the arguments with which this program does something else than compare.
var others = map[string]func(args []string) error{
	"scale":      runScale,      // very many leases and sessions
	"replicas":   runReplicas,   // what several replicas of lockd do together
	"redlock":    runRedLock,    // lockd on one master and on five beside redsync on five, by the number of callers
	"neighbours": runNeighbours, // how much of its speed a client keeps beside a flood of others
	"history":    runHistory,    // what it costs to remember events
	"security":   runSecurity,   // what identities, rights, quotas and the audit cost
	"http":       runHTTP,       // unary calls by HTTP/JSON beside those by gRPC
	// With these it is a process that a comparison needs.
	echoCommand:  func([]string) error { return serveBare(echo{}) },
	relayCommand: serveRelay,
	floodCommand: runFlood,
}

func run(args []string) error {
	if len(args) > 0 {
		if do, ok := others[args[0]]; ok {
			return do(args[1:])
		}
	}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	isQuick := flags.Bool("quick", false, "a smoke test: the numbers mean little")
	within := flags.Duration("timeout", 10*time.Minute, "give up after this time")
	peers := flags.String("peers", "", "only peers whose `name` this regular expression matches, such as ^lockd,")
	sdks := flags.Bool("sdks", false, "only the SDKs of other languages")
	profiles := flags.String("profiles", "",
		"write CPU profiles of lockd and of its callers into this `directory`, from one long round")
	_ = flags.Parse(args) // it exits
	p := full
	if *isQuick {
		p = quick
	}
	if *profiles != "" {
		p.profiles, p.rounds, p.run = *profiles, 1, profiledRun
	}
	p.sdks = *sdks
	var err error
	if p.peers, err = regexp.Compile(*peers); err != nil {
		return err
	}
	return withServers(*within, func(ctx context.Context, redis *process, program *program) error {
		return compare(ctx, redis, program, p)
	})
}

// bounded is a context that ends with a signal, or after some time.
func bounded(within time.Duration) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not done within %v", within))
	return ctx, func() { cancel(); stop() }
}

// compare starts lockd, measures, and prints.
func compare(ctx context.Context, redis *process, program *program, p plan) error {
	lockd, err := program.start(redis.addr, fmt.Sprintf("LOCKD_OPS_PPROF=%t", p.profiles != ""))
	if err != nil {
		return err
	}
	defer lockd.stop()
	e := env{redis: redis, lockd: []*process{lockd}}
	if p.sdks {
		printMachine(ctx, e)
		return compareSDKs(ctx, e, p)
	}
	if e.scripts, err = learnScripts(ctx, e); err != nil {
		return err
	}
	printMachine(ctx, e)
	if err := compareAlone(ctx, e, p); err != nil {
		return err
	}
	for i := 1; i < hotReplicas; i++ {
		lockd, err := program.start(redis.addr, fmt.Sprintf("LOCKD_REPLICA=bench-%d", i))
		if err != nil {
			return err
		}
		defer lockd.stop()
		e.lockd = append(e.lockd, lockd)
	}
	hot, err := compareHot(ctx, e, p)
	if err != nil {
		return err
	}
	printHot(hot)
	return compareTopologies(ctx, e, program, p)
}

// compareAlone measures what nobody has to wait for.
func compareAlone(ctx context.Context, e env, p plan) error {
	rows, err := measureFloor(ctx, e, p)
	if err != nil {
		return fmt.Errorf("the floor: %w", err)
	}
	printFloor(rows)
	sum := summary{floor: rows, pairs: make(map[int][]peerPairs)}
	var redisson *told
	missing := "not asked for"
	if p.peers.MatchString(redissonName) {
		if redisson, missing, err = startRedisson(ctx, e); err != nil {
			return err
		}
	}
	if redisson != nil {
		defer redisson.kill()
	}
	for _, callers := range p.callers {
		peers := append(pairPeers(callers), redissonPeer(redisson, missing))
		results, err := comparePairs(ctx, e, p, p.chosen(peers), callers)
		if err != nil {
			return err
		}
		printPairs("Lock + unlock, each caller with a name of its own", callers, results)
		sum.pairs[callers] = results
	}
	if sum.kinds, err = comparePairs(ctx, e, p, sharedPeers(), manyCallers); err != nil {
		return err
	}
	printPairs("Kinds of locks, one session of lockd", manyCallers, sum.kinds)
	sum.print()
	return compareSDKs(ctx, e, p)
}
