package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

const (
	// keeps is the part of its speed that a neighbour keeps beside a flood, at least. If all wait in one line it keeps
	// less. Both are measured in the same way, one after the other, so a slow machine changes neither by much; but what
	// else runs may.
	keeps = 0.25
	// neighbourRounds is how often that is measured, until once both are seen.
	neighbourRounds = 3
	// measuring is for how long each speed is measured.
	measuring = 700 * time.Millisecond
)

// TestANeighbourOfAFloodKeepsItsSpeed has one session, or several, keep a thousand requests waiting, and another one
// eight.
func TestANeighbourOfAFloodKeepsItsSpeed(t *testing.T) {
	for name, flood := range map[string]func(i int) lock.Claim{
		"pairs":   func(i int) lock.Claim { return claim(fmt.Sprint("f", i), floodOwner(i, 1)) },
		"4 times": func(i int) lock.Claim { return claim(fmt.Sprint("f", i), floodOwner(i, 4)) },
		"tries to write beside 10,000 readers": func(i int) lock.Claim {
			return kindClaim(lock.Write, "n", floodOwner(i, 1))
		},
		"1,000 permits": func(i int) lock.Claim {
			return permitsClaim(fmt.Sprint("p", i%20), floodOwner(i, 1), lock.MaxPermits, 1<<30)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range neighbourRounds {
				fair, oneLine := besideFlood(t, flood, false), besideFlood(t, flood, true)
				t.Logf("the neighbour keeps %.2f of its speed, and %.2f if all wait in one line", fair, oneLine)
				if fair >= keeps && oneLine < keeps {
					return
				}
			}
			t.Errorf("want at least %.2f, and less in one line", keeps)
		})
	}
}

func floodOwner(i, sessions int) lock.Owner {
	return whole(lock.Owner(fmt.Sprintf("flood-%d:#%d", i%sessions, i)))
}

// besideFlood is which part of its speed a neighbour keeps.
func besideFlood(t *testing.T, flood func(int) lock.Claim, oneLine bool) float64 {
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.OpTimeout, cfg.oneLine = 10*time.Second, oneLine
	s := open(t, cfg)
	deepReaders(t, srv.Client(), 10_000, 1)
	must(t, srv.Client().Del(t.Context(), layout.HoldBase("n")+"u:0:rwlock_timeout:1").Err())
	alone := neighbourSpeed(t, s)
	var over atomic.Bool
	var busy sync.WaitGroup
	for i := range 1000 {
		busy.Add(1)
		c := flood(i)
		var again func()
		again = func() {
			if over.Load() {
				busy.Done()
				return
			}
			s.StartAcquire(c, func(g lock.Grant, _ error) {
				s.StartRelease(lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, Permits: c.Permits},
					func(lock.Returned, error) { again() })
			})
		}
		again()
	}
	time.Sleep(measuring / 2) // until it is known what they cost
	beside := neighbourSpeed(t, s)
	over.Store(true)
	busy.Wait()
	return beside / alone
}

// neighbourSpeed is how many pairs in a second eight callers make.
func neighbourSpeed(t *testing.T, s *Store) float64 {
	var pairs atomic.Int64
	var callers sync.WaitGroup
	begun := time.Now()
	for i := range 8 {
		callers.Go(func() {
			for time.Since(begun) < measuring {
				if err := pair(t.Context(), s, fmt.Sprint("nb", i), whole(lock.Owner(fmt.Sprint("neighbour:#", i)))); err != nil {
					t.Error(err)
					return
				}
				pairs.Add(1)
			}
		})
	}
	callers.Wait()
	return float64(pairs.Load()) / time.Since(begun).Seconds()
}

// TestANeighbourOfListsKeepsItsSpeed has four callers list very many locks without a pause.
func TestANeighbourOfListsKeepsItsSpeed(t *testing.T) {
	beside := func(oneLine bool) float64 {
		cfg := quick(redistest.Start(t))
		cfg.OpTimeout, cfg.oneLine = 10*time.Second, oneLine
		s := open(t, cfg)
		for i := range 1000 {
			acquire(t, s, claim(fmt.Sprint("l", i), "o"))
		}
		alone := neighbourSpeed(t, s)
		var over atomic.Bool
		var lists sync.WaitGroup
		for range 4 {
			lists.Go(func() {
				for !over.Load() {
					if _, _, err := s.List(t.Context(), "", "", 1000); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(measuring / 2)
		besides := neighbourSpeed(t, s)
		over.Store(true)
		lists.Wait()
		return besides / alone
	}
	for range neighbourRounds {
		fair, oneLine := beside(false), beside(true)
		t.Logf("the neighbour keeps %.2f of its speed, and %.2f if all wait in one line", fair, oneLine)
		if fair >= keeps && fair >= oneLine*3/2 {
			return
		}
	}
	t.Errorf("want at least %.2f, and half as much again as in one line", keeps)
}
