package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// Those who take names that nobody else wants never wait for each other's leftovers, also if a minority is silent: a
// member that carries out what it is asked in another order does not keep a hold that was released.
func TestNobodyIsInTheWayOfNamesThatNobodyElseWants(t *testing.T) {
	t.Parallel()
	for _, quiet := range tier.Pick([]int{1}, []int{0, 1, 2}) {
		inWorld(t, 5, Config{}, func(w *world) {
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(1, uint64(quiet))) //nolint:gosec // no secret
			for i, n := range w.nodes {
				n.choose(func(string) fate {
					mu.Lock()
					defer mu.Unlock()
					return fate{before: time.Duration(rnd.IntN(int(3 * time.Millisecond))), after: time.Millisecond}
				})
				if i < quiet {
					n.becomes(silent)
				}
			}
			var wg sync.WaitGroup
			var slowest time.Duration
			for caller := range 16 {
				wg.Go(func() {
					for n := range tier.Pick(50, 300) {
						begun := time.Now()
						took, err := w.pair(fmt.Sprint("n", caller), lock.Owner(fmt.Sprint(caller, "#", n)), begun)
						mu.Lock()
						slowest = max(slowest, took)
						if err != nil {
							w.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if slowest > 100*time.Millisecond {
				t.Errorf("%d silent: a pair took %v, and answers come after 4 ms", quiet, slowest)
			}
			time.Sleep(time.Minute)
			for caller := range 16 {
				if os := w.holders(fmt.Sprint("n", caller)); slices.ContainsFunc(os, func(o lock.Owner) bool { return o != "" }) {
					t.Errorf("%d silent: %q have a name that was released", quiet, os)
				}
			}
		})
	}
}

// pair takes a name, asking again while somebody is in the way, and gives it back.
func (w *world) pair(name string, o lock.Owner, begun time.Time) (time.Duration, error) {
	for {
		g, err := w.Store.Acquire(w.Context(), claimOf(name, o))
		if err == nil {
			_, err = w.Store.Release(w.Context(), returnOf(name, o, g.Fence))
			return time.Since(begun), err
		}
		held, is := errors.AsType[*lock.HeldError](err)
		if !is {
			return time.Since(begun), err
		}
		time.Sleep(min(held.RetryAfter, 10*time.Millisecond))
	}
}

// A member that answers late is asked to release what it was asked to acquire, in that order, by the fence that it
// gave.
func TestAReleaseWaitsForTheAcquisition(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"the same fence": func(*world) {},
		"a greater fence": func(w *world) {
			c := claimOf("n", "odd")
			c.Fence = 8e15
			w.puts(2, c)
			w.nodes[2].Expire("n")
		},
		"a smaller fence": func(w *world) {
			for i, f := range []lock.Fence{7e15, 8e15} {
				c := claimOf("n", "odd")
				c.Fence = f
				w.puts(i, c)
				w.nodes[i].Expire("n")
			}
		},
	} {
		inWorld(t, 3, Config{}, func(w *world) {
			prepare(w)
			w.nodes[2].choose(once("acquire", fate{before: 300 * time.Millisecond}))
			begun := time.Now()
			f := w.take(w.Store, claimOf("n", "o")).Fence
			w.give(w.Store, returnOf("n", "o", f))
			if took := time.Since(begun); took > 10*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
			time.Sleep(310 * time.Millisecond)
			synctest.Wait()
			w.wantHolders("n", "", "", "")
			if n := w.Store.late.waiting(); n != 0 {
				t.Errorf("%s: %d acquisitions are remembered", name, n)
			}
			if n := w.Store.odd.len(); n != 0 {
				t.Errorf("%s: %d odd fences are remembered", name, n)
			}
		})
	}
}

// waiting is how many names and owners are known.
func (l *late) waiting() (n int) {
	for i := range l.parts {
		p := &l.parts[i]
		p.mu.Lock()
		n += len(p.calls)
		p.mu.Unlock()
	}
	return n
}

// An acquisition of which little is known is repeated, and both are under way at a member. The release waits for both.
func TestAReleaseWaitsForAllAcquisitions(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(2, claimOf("n", "other"))
		w.nodes[3].choose(once("acquire", silent))
		asked := 0
		w.nodes[4].choose(func(op string) fate {
			if op != "acquire" {
				return fate{}
			}
			asked++
			return fate{before: []time.Duration{600 * time.Millisecond, 100 * time.Millisecond}[asked-1]}
		})
		const o = lock.Owner("x:unary")
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", o)); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		w.nodes[2].Expire("n")
		begun := time.Now()
		f := w.take(w.Store, claimOf("n", o)).Fence
		w.give(w.Store, returnOf("n", o, f))
		if took := time.Since(begun); took > 10*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(200 * time.Millisecond) // the repetition was carried out
		if n := w.nodes[4].called("release"); n != 0 {
			t.Errorf("the late member was asked to release it %d times, and has yet to acquire it", n)
		}
		time.Sleep(time.Second)
		w.wantHolders("n", "", "", "", "", "")
	})
}

// A release waits for the raises of what it ends as well: a member that carried it out before would say that it has
// another fence, and the hold would stay there.
func TestAReleaseWaitsForAllRaises(t *testing.T) {
	for _, all := range []bool{false, true} {
		inWorld(t, 5, Config{}, func(w *world) {
			const o = lock.Owner("x:unary")
			for i, f := range []lock.Fence{100, 100, 200, 200} {
				c := claimOf("n", o)
				c.Fence = f
				w.puts(i, c)
			}
			w.nodes[0].choose(once("raise", fate{before: 50 * time.Millisecond}))
			w.nodes[1].choose(once("acquire", fate{before: 2 * time.Millisecond}))
			w.nodes[4].becomes(down)
			w.take(w.Store, claimOf("other", "y")) // it is known by now which ones answer
			begun := time.Now()
			var f lock.Fence
			if all {
				gs, err := w.Store.AcquireAll(w.Context(), []lock.Claim{claimOf("n", o)})
				if err != nil {
					t.Fatal(err)
				}
				f = gs[0].Fence
			} else {
				f = w.take(w.Store, claimOf("n", o)).Fence
			}
			w.give(w.Store, returnOf("n", o, f))
			if took := time.Since(begun); took > 10*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			time.Sleep(time.Second)
			w.wantHolders("n", "", "", "", "", "")
		})
	}
}

// An attempt that met others at members that are a majority with those that it got is given back, though silent members
// and late ones may have made one of it. What they do later is given back as well.
func TestAnAttemptIsGivenBackWhereOthersContend(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(2, claimOf("n", "other"))
		w.nodes[3].choose(once("acquire", fate{noReply: true, before: 50 * time.Millisecond}))
		w.nodes[4].choose(once("acquire", fate{before: 600 * time.Millisecond}))
		begun := time.Now()
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("got %v, want that it is held", err)
		}
		if took := time.Since(begun); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(10 * time.Millisecond)
		if all := w.holders("n"); all[0] != "" || all[1] != "" {
			t.Errorf("holders are %q", all)
		}
		time.Sleep(2 * time.Second)
		w.wantHolders("n", "", "", "other", "", "")
	})
}

// Members that answer what reads and nothing that writes are silent. Who contends does not wait for them again.
func TestWhoContendsDoesNotWaitForMembersThatAnswerReadsAlone(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(2, claimOf("n", "other"))
		for _, n := range w.nodes[:2] {
			n.choose(func(op string) fate {
				if op == "look" || op == "probe" {
					return fate{}
				}
				return silent
			})
		}
		contend := func(o lock.Owner) time.Duration {
			begun := time.Now()
			if _, err := w.Store.Acquire(w.Context(), claimOf("n", o)); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("got %v, want that it is held", err)
			}
			return time.Since(begun)
		}
		contend("s:#1")
		time.Sleep(2 * time.Second) // its calls have failed
		for i := range 5 {
			if _, err := w.Probe(w.Context()); err != nil {
				t.Error(err)
			}
			if _, err := w.Look(w.Context(), "free"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if took := contend(lock.Owner(fmt.Sprint("s:#", i+2))); took > 10*time.Millisecond {
				t.Errorf("it waited %v for silent members", took)
			}
		}
	})
}

// Members that look slowly are not silent. An attempt that needs their votes waits for them.
func TestWhoLooksSlowlyIsNotSilent(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(2, claimOf("n", "other"))
		for _, n := range w.nodes[:2] {
			n.choose(func(op string) fate {
				if op == "look" || op == "probe" {
					return fate{after: 400 * time.Millisecond}
				}
				return fate{after: 20 * time.Millisecond}
			})
		}
		begun := time.Now()
		if _, err := w.Look(w.Context(), "n"); err != nil { // the others do not agree
			t.Error(err)
		}
		if took := time.Since(begun); took < 200*time.Millisecond {
			t.Fatalf("nobody was waited for: it took %v", took)
		}
		w.take(w.Store, claimOf("n", "o"))
	})
}

// What an attempt of a waiter left where it was not known to be is given back by its next one, which gets no majority
// either. Else two waiters with two of five members each could stand in each other's way until their leases end.
func TestAWaiterGivesBackWhatItsEarlierAttemptsLeft(t *testing.T) {
	for owner, want := range map[lock.Owner]lock.Owner{"s:#1": "", "x:unary": "x:unary"} {
		inWorld(t, 5, Config{}, func(w *world) {
			w.nodes[0].becomes(down)
			for i, o := range []lock.Owner{1: owner, 2: "s:#2", 3: owner, 4: "s:#2"} {
				if i > 0 {
					c := claimOf("n", o)
					c.Fence = 1
					w.puts(i, c)
				}
			}
			if _, err := w.Store.Acquire(w.Context(), claimOf("n", owner)); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("got %v, want that it is held", err)
			}
			synctest.Wait()
			w.wantHolders("n", "", want, "s:#2", want, "s:#2") // who may have been told of it elsewhere keeps it
		})
	}
}

// A member whose fence could not be raised finds the release stale. What it has is ended all the same.
func TestAReleaseReachesAMemberWithALowerFence(t *testing.T) {
	for _, over := range []bool{false, true} {
		inWorld(t, 3, Config{}, func(w *world) {
			c := claimOf("n", "ahead")
			c.Fence = lock.Fence(time.Now().Add(5 * time.Hour).UnixMicro())
			w.puts(0, c)
			w.nodes[0].Expire("n")
			c = claimOf("n", "o")
			c.TTL = 10 * time.Minute
			w.nodes[2].choose(func(op string) fate {
				switch op {
				case "acquire":
					return fate{before: 100 * time.Millisecond}
				case "raise":
					return silent
				}
				return fate{}
			})
			f := w.take(w.Store, c).Fence
			time.Sleep(3 * time.Second)
			w.wantHolders("n", "o", "o", "o")
			r := returnOf("n", "o", f)
			if over {
				w.pass(w.Store, toSuccessor("o", f, "successor"))
			} else {
				w.give(w.Store, r)
			}
			synctest.Wait()
			time.Sleep(2 * time.Second)
			if o := w.nodes[2].has("n"); o == "o" {
				t.Errorf("handed over %v: %q has it yet, for minutes", over, o)
			}
		})
	}
}
