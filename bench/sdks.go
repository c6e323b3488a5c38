package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Where the program of Python is, and what it needs.
const (
	pythonBench = "../sdk/python/bench.py"
	// pythonPath has the SDK and the stubs.
	pythonPath = "../sdk/python/src:../api/gen/python"
	// pythonVenv is made by scripts/ensure pythonsdk.
	pythonVenv = "../.cache/pythonsdk/newest/bin/python"
)

// pythonWarmUp is how long a Python that has just started is left to become fast.
const pythonWarmUp = 500 * time.Millisecond

// way is a way to lock with a program of another language.
type way struct {
	name     string
	kind     kind
	commands int // of Redis, for a pair
	start    func(ctx context.Context, peer, addr string) (*told, error)
	peer     string // what the program is told
	redis    bool   // it asks Redis itself
	beside   string // the name of the library of its language
}

const redisPy, redisPyAio = "Python: redis-py", "Python: redis-py, asyncio"

// ways are the SDKs of other languages, each beside a bare loop on the stubs, and a library of that language.
var ways = []way{
	{"Java: SDK", ours, 4, startJava, "lockd", false, redissonName},
	{"Java: bare loop on the stubs", echoed, 4, startJava, "stubs", false, redissonName},
	{redissonName, java, 4, startJava, "redisson", true, redissonName},
	{"Java: SDK, virtual threads", ours, 4, startVirtual, "lockd", false, redissonVirtual},
	{redissonVirtual, java, 4, startVirtual, "redisson", true, redissonVirtual},
	{"Python: SDK", ours, 4, startPython, "lockd", false, redisPy},
	{"Python: SDK, asyncio", ours, 4, startPython, "lockd.aio", false, redisPyAio},
	{"Python: bare loop on the stubs", echoed, 4, startPython, "stubs", false, redisPy},
	{redisPy, library, 2, startPython, "redis", true, redisPy},
	{redisPyAio, library, 2, startPython, "redis.aio", true, redisPyAio},
}

// sdkCallers are how many callers the SDKs are measured with.
var sdkCallers = []int{1, 64}

// open runs the program of a way, as a peer.
func (w way) open(ctx context.Context, e env) (p peer, t *told, err error) {
	addr := e.lockd[0].addr
	if w.redis {
		addr = e.redis.addr
	}
	if t, err = w.start(ctx, w.peer, addr); err != nil {
		return peer{}, nil, fmt.Errorf("%s: %w", w.name, err)
	}
	return peer{w.name, w.kind, w.commands, t.open}, t, nil
}

func startPython(_ context.Context, peer, addr string) (*told, error) {
	if _, err := os.Stat(pythonVenv); err != nil {
		return nil, fmt.Errorf("%w; run: scripts/ensure pythonsdk", err)
	}
	env := []string{"PYTHONPATH=" + pythonPath, "PYTHONDONTWRITEBYTECODE=1"}
	return startTold(pythonWarmUp, env, pythonVenv, pythonBench, peer, addr)
}

// compareSDKs measures the SDKs of other languages.
func compareSDKs(ctx context.Context, e env, p plan) error {
	var peers []peer
	for _, w := range ways {
		if !p.peers.MatchString(w.name) {
			continue
		}
		peer, program, err := w.open(ctx, e)
		if errors.Is(err, errNoVirtual) {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		if err != nil {
			return err
		}
		defer program.kill()
		peers = append(peers, peer)
	}
	for _, callers := range sdkCallers {
		results, err := comparePairs(ctx, e, p, peers, callers)
		if err != nil {
			return err
		}
		printSDKs(callers, results)
	}
	return nil
}

// printSDKs shows each beside the library of its language.
func printSDKs(callers int, results []peerPairs) {
	if len(results) == 0 {
		return
	}
	of := make(map[string]peerPairs)
	for _, r := range results {
		of[r.peer.name] = r
	}
	fmt.Printf("\nSDKs of other languages, callers: %d, median of %d rounds; CPU in us per pair\n\n", callers,
		len(results[0].runs))
	t := newTable("peer", "pairs/s", "least-most", "p50", "p99", "CPU Redis", "CPU lockd", "CPU client", "/ library")
	for _, w := range ways {
		if r := of[w.name]; len(r.runs) > 0 {
			t.add(append(pairCells(r), ratio(besides(r, of[w.beside], pairRate)))...)
		}
	}
	t.print()
}
