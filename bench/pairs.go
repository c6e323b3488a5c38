package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	metric "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
)

// pairPeers are compared on names that nobody else wants.
func pairPeers(callers int) []peer {
	peers := []peer{
		{oneSession, ours, 4, lockdWith(1)},
		{"lockd, 8 sessions", ours, 4, lockdWith(8)},
		{"redislock", library, 4, redislockOn(pooled, redislock.NoRetry)},
		{"redislock, on AutoPipeline", tuned, 4, redislockOn(pipelined, redislock.NoRetry)},
		{"rueidislock", library, 4, rueidislockWith(1)},
		{"redsync", library, 4, redsyncOn(redsyncGoredis)},
		{"redsync, on AutoPipeline", tuned, 4, redsyncOn(redsyncPipelined)},
		{"lockd's scripts, go-redis pool", floor, 4, directly(pooled)},
		{"lockd's scripts, AutoPipeline", floor, 4, directly(pipelined)},
	}
	if callers == manyCallers {
		peers = slices.Insert(peers, 2, peer{manySessions, ours, 4, lockdWith(manyCallers)})
	}
	if callers == 1 || callers == manyCallers {
		peers = append(peers,
			peer{fmt.Sprintf(relayName, callers), echoed, 4, relayWith(callers)},
			peer{fmt.Sprintf(echoName, callers), echoed, 0, echoWith(callers)})
	}
	return peers
}

// The names of peers that the summary asks for.
const (
	oneSession = "lockd, 1 session"
	echoName   = "gRPC echo, connections: %d"
	relayName  = "relay, connections: %d"
	ownNames   = "exclusive, own names"
	oneRead    = "readers of one name"
	onePool    = "one semaphore"
)

var manySessions = fmt.Sprintf("lockd, %d sessions", manyCallers)

// manyCallers are measured on one session, and each on a session of its own.
const manyCallers = 256

// pairResult is what one run measured: lock and unlock of a free name, again and again.
type pairResult struct {
	pairs    int
	rate     float64 // pairs per second, of all callers
	p50, p99 time.Duration
	cpu      usage   // of a pair
	allocs   float64 // of a pair, in the process of the callers, if it is this one
	served   float64 // allocations of a pair in lockd, if the plan asks for them
}

// peerPairs are the runs of one peer.
type peerPairs struct {
	peer peer
	runs []pairResult
}

// sharedPeers are lockd's kinds that many hold at once, beside names that nobody else wants. For one name lockd does
// much once for many.
func sharedPeers() []peer {
	return []peer{
		{ownNames, ours, 4, lockdWith(1)},
		{oneRead, ours, 3, onOneName(lockdWith(1, client.As(client.Read)))},
		{onePool, ours, 2, onOneName(lockdWith(1, client.Permits(1, 2*manyCallers)))},
	}
}

// onOneName has all callers lock the same name.
func onOneName(open func(env, int) (locker, error)) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		l, err := open(e, callers)
		if err != nil {
			return nil, err
		}
		one := newName()
		return funcs{closeFunc: l.close, lockFunc: func(ctx context.Context, caller int, _ string) (unlockFunc, error) {
			return l.lock(ctx, caller, one)
		}}, nil
	}
}

// comparePairs runs all peers in turn, round after round, so that what drifts hits all alike. Each round begins with
// another one.
func comparePairs(ctx context.Context, e env, p plan, peers []peer, callers int) ([]peerPairs, error) {
	var out []peerPairs
	for _, peer := range peers {
		out = append(out, peerPairs{peer: peer})
	}
	for round := range p.rounds {
		for i := range out {
			pp := &out[(i+round)%len(out)]
			if pp.peer.open == nil {
				continue
			}
			r, err := runPairs(ctx, e, p, pp.peer, callers)
			if isStuck(ctx, pp.peer, err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s with %d callers: %w", pp.peer.name, callers, err)
			}
			pp.runs = append(pp.runs, r)
		}
	}
	return out, nil
}

// isStuck says whether a library's callers wait in vain, as some do on a busy machine. Such a round does not count. If
// lockd's callers do, the run fails.
func isStuck(ctx context.Context, p peer, err error) bool {
	if p.kind == ours || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	fmt.Fprintf(os.Stderr, "%s is stuck in a round, which is left out: %v\n", p.name, err)
	return true
}

// runPairs opens a peer, warms it up, measures it and closes it.
func runPairs(ctx context.Context, e env, p plan, peer peer, callers int) (pairResult, error) {
	l, err := peer.open(e, callers)
	if err != nil {
		return pairResult{}, err
	}
	defer l.close()
	if s, ok := l.(server); ok {
		e = s.among(e)
	}
	if _, err := measurePairs(ctx, e, l, p.warmUp, callers); err != nil {
		return pairResult{}, err
	}
	runtime.GC() // what others left behind is not this one's
	before, err := commands(ctx, e)
	if err != nil {
		return pairResult{}, err
	}
	measure := func() (pairResult, error) { return measurePairs(ctx, e, l, p.run, callers) }
	if p.served {
		measure = e.served(measure)
	}
	var r pairResult
	if p.profiles != "" && peer.kind == ours {
		r, err = e.profiled(p.profiles, fmt.Sprintf("%d callers, %s", callers, peer.name), measure)
	} else {
		r, err = measure()
	}
	if err != nil {
		return pairResult{}, err
	}
	after, err := commands(ctx, e)
	if err == nil && after-before < r.pairs*peer.commands {
		err = fmt.Errorf("%d pairs were counted, but Redis ran only %d commands", r.pairs, after-before)
	}
	return r, err
}

// measurePairs has callers lock and unlock for a while, and reads what CPU time that took.
func measurePairs(ctx context.Context, e env, l locker, run time.Duration, callers int) (pairResult, error) {
	pid, pairs := self, func() (pairResult, error) { return pairsFor(ctx, l, run, callers) }
	if other, ok := l.(runner); ok {
		pid, pairs = other.pid(), func() (pairResult, error) { return other.pairs(run, callers) }
	}
	before, err := e.usage(pid)
	if err != nil {
		return pairResult{}, err
	}
	mallocs := allocations()
	r, err := pairs()
	if err != nil {
		return pairResult{}, err
	}
	after, err := e.usage(pid)
	r.cpu = after.since(before, r.pairs)
	r.allocs = float64(allocations()-mallocs) / float64(max(r.pairs, 1))
	return r, err
}

// allocations is how many there were in this process.
func allocations() uint64 {
	sample := []metric.Sample{{Name: "/gc/heap/allocs:objects"}}
	metric.Read(sample)
	return sample[0].Value.Uint64()
}

// commands is how many commands Redis has run, those of scripts included. What a peer claims is checked against it.
func commands(ctx context.Context, e env) (int, error) {
	c := redis.NewClient(&redis.Options{Addr: e.redis.addr})
	defer func() { _ = c.Close() }()
	stats, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its statistics: %w", err)
	}
	total := 0
	for line := range strings.Lines(stats) {
		_, rest, _ := strings.Cut(line, ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(calls) // the headline has none
		total += n
	}
	return total, nil
}

// patience is how long a call may take beyond the end of a run.
const patience = 5 * time.Second

func pairsFor(ctx context.Context, l locker, run time.Duration, callers int) (pairResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, run+patience, errors.New("a caller is stuck"))
	defer cancel()
	var (
		over  atomic.Bool
		wg    sync.WaitGroup
		times = make([][]time.Duration, callers)
		errs  = make(chan error, callers)
	)
	began := time.Now()
	timer := time.AfterFunc(run, func() { over.Store(true) })
	defer timer.Stop()
	for caller := range callers {
		wg.Go(func() {
			var err error
			if times[caller], err = pairsOf(ctx, l, caller, &over); err != nil {
				errs <- err
				over.Store(true)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	close(errs)
	if err := <-errs; err != nil {
		return pairResult{}, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	return pairResult{
		pairs: len(all), rate: float64(len(all)) / took.Seconds(), p50: quantile(all, 0.50), p99: quantile(all, 0.99),
	}, nil
}

// newName is the name of a lock that was never used.
func newName() string { return "bench:" + rand.Text() }

// pairsOf is one caller: it returns how long each of its pairs took.
func pairsOf(ctx context.Context, l locker, caller int, over *atomic.Bool) ([]time.Duration, error) {
	name := newName() // left by no other run, of whatever type, and wanted by no other caller
	times := make([]time.Duration, 0, 1<<12)
	for !over.Load() {
		began := time.Now()
		unlock, err := l.lock(ctx, caller, name)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if err := unlock(ctx); err != nil {
			return nil, fmt.Errorf("unlock: %w", err)
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}
