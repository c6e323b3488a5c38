package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
)

// hotPeers are compared on one name that all callers want. The libraries wait as their documentation says.
func hotPeers() []peer {
	linear := func() redislock.RetryStrategy { return redislock.LinearBackoff(100 * time.Millisecond) }
	exponential := func() redislock.RetryStrategy {
		return redislock.ExponentialBackoff(16*time.Millisecond, 128*time.Millisecond)
	}
	return []peer{
		{"lockd, 1 session", ours, 4, lockdWith(1)},
		{"lockd, 8 sessions", ours, 4, lockdWith(8)},
		{"lockd, 3 replicas, a session each", ours, 4, lockdOn(hotReplicas, hotReplicas)},
		{"redislock, every 100 ms", library, 4, redislockOn(pooled, linear)},
		{"redislock, 16 to 128 ms", library, 4, redislockOn(pooled, exponential)},
		{"rueidislock, 1 locker", library, 4, rueidislockWith(1)},
		{"rueidislock, 8 lockers", library, 4, rueidislockWith(8)},
		{"redsync, 50 to 250 ms", library, 4, redsyncOn(redsyncGoredis)},
	}
}

// hotReplicas is how many replicas of lockd the callers of one name are spread over, at most.
const hotReplicas = 3

// hold is how long each holder keeps the lock.
const hold = time.Millisecond

// hotResult is what one run measured.
type hotResult struct {
	rate float64 // grants per second
	// The gap is from the moment a holder calls unlock to the moment the next holder has the lock.
	p50, p99 time.Duration
	// same is the share of grants that went to the caller who had just unlocked, past all who waited.
	same float64
	// longest is the longest wait for the lock, waits that the end of the run cut short included.
	longest time.Duration
	// unfair is the largest number of grants to a caller over the smallest; infinite if one got none.
	unfair float64
}

// peerHot are the runs of one peer.
type peerHot struct {
	peer peer
	runs []hotResult
}

// compareHot runs all peers in turn, as comparePairs does.
func compareHot(ctx context.Context, e env, p plan) ([]peerHot, error) {
	var out []peerHot
	for _, peer := range p.chosen(hotPeers()) {
		out = append(out, peerHot{peer: peer})
	}
	for round := range p.hotRounds {
		for i := range out {
			ph := &out[(i+round)%len(out)]
			r, err := runHot(ctx, e, p, ph.peer)
			if isStuck(ctx, ph.peer, err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s on a hot name: %w", ph.peer.name, err)
			}
			ph.runs = append(ph.runs, r)
		}
	}
	return out, nil
}

func runHot(ctx context.Context, e env, p plan, peer peer) (hotResult, error) {
	l, err := peer.open(e, hotCallers)
	if err != nil {
		return hotResult{}, err
	}
	defer l.close()
	runtime.GC()
	return newHot(l, hotCallers).measure(ctx, p.hotRun)
}

func newHot(l locker, callers int) *hot {
	return &hot{locker: l, name: newName(), began: time.Now(), grants: make([]int, callers)}
}

// hot is a run on one name. The lock itself guards what has no atomic type: only its holder touches it.
type hot struct {
	locker   locker
	name     string
	began    time.Time
	over     atomic.Bool
	released atomic.Int64 // when unlock was last called, in ns since began; 0 before that
	holders  atomic.Int32
	gaps     []time.Duration // guarded by the lock under test
	grants   []int           // likewise
	last     int             // likewise: who held it before
	same     int             // likewise
	longest  atomic.Int64    // wait, in ns
	waits    atomic.Int64    // all of them, in ns
}

func (h *hot) measure(ctx context.Context, run time.Duration) (hotResult, error) {
	ctx, cancel := context.WithTimeout(ctx, run+patience)
	defer cancel()
	waits, stop := context.WithCancel(ctx) // who holds the lock at the end still unlocks it
	defer stop()
	timer := time.AfterFunc(run, func() { h.over.Store(true); stop() })
	defer timer.Stop()
	var wg sync.WaitGroup
	errs := make(chan error, len(h.grants))
	for caller := range h.grants {
		wg.Go(func() {
			if err := h.call(waits, ctx, caller); err != nil && !h.over.Load() {
				errs <- err
				h.over.Store(true)
				stop()
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return hotResult{}, err
	}
	if len(h.gaps) == 0 {
		return hotResult{}, errors.New("the lock never went from one holder to the next")
	}
	slices.Sort(h.gaps)
	unfair := math.Inf(1)
	if least := slices.Min(h.grants); least > 0 {
		unfair = float64(slices.Max(h.grants)) / float64(least)
	}
	return hotResult{
		same: float64(h.same) / float64(len(h.gaps)), longest: time.Duration(h.longest.Load()),
		rate: float64(len(h.gaps)) / run.Seconds(),
		p50:  quantile(h.gaps, 0.50), p99: quantile(h.gaps, 0.99), unfair: unfair,
	}, nil
}

// call is one caller. It waits as long as one context lasts, and unlocks with the other.
func (h *hot) call(waits, ctx context.Context, caller int) error {
	for !h.over.Load() {
		asked := time.Since(h.began)
		unlock, err := h.locker.lock(waits, caller, h.name)
		h.waited(time.Since(h.began) - asked)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		granted := time.Since(h.began)
		if h.holders.Add(1) != 1 {
			return errors.New("two callers hold the lock")
		}
		if last := h.released.Load(); last != 0 {
			h.gaps = append(h.gaps, granted-time.Duration(last))
			if h.last == caller {
				h.same++
			}
		}
		h.last = caller
		h.grants[caller]++
		time.Sleep(hold)
		h.holders.Add(-1)
		h.released.Store(int64(time.Since(h.began)))
		if err := unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}

// waited notes a wait.
func (h *hot) waited(d time.Duration) {
	h.waits.Add(int64(d))
	for {
		longest := h.longest.Load()
		if int64(d) <= longest || h.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}
