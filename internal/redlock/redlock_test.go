package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A minority that is dead, silent or far away costs nobody any time.
func TestAMinoritySlowsNobody(t *testing.T) {
	const far = 500 * time.Millisecond
	healthy := lapOf(t, func(*world) {})
	if healthy == 0 {
		t.Fatal("nothing was measured")
	}
	for name, fault := range map[string]func(w *world){
		"one down":                func(w *world) { w.nodes[0].becomes(down) },
		"one silent":              func(w *world) { w.nodes[1].becomes(silent) },
		"one that does not reply": func(w *world) { w.nodes[2].becomes(fate{noReply: true}) },
		"one after 500 ms":        func(w *world) { w.nodes[3].lag(far) },
		"two silent":              func(w *world) { w.nodes[0].becomes(silent); w.nodes[4].becomes(silent) },
		"two after 500 ms":        func(w *world) { w.nodes[0].lag(far); w.nodes[4].lag(far) },
	} {
		if took := lapOf(t, fault); took > healthy*3/2 {
			t.Errorf("%s: it takes %v, and %v if all are well", name, took, healthy)
		}
	}
}

// lapOf is how long a hold takes from its acquisition to its release, with all that may happen to it, if members answer
// after 2 ms but for the fault.
func lapOf(t *testing.T, fault func(w *world)) (took time.Duration) {
	inWorld(t, 5, Config{}, func(w *world) {
		for _, n := range w.nodes {
			n.lag(2 * time.Millisecond)
		}
		fault(w)
		begun := time.Now()
		for range 20 {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			if _, err := w.Store.Acquire(w.Context(), claimOf("n", "other")); !errors.Is(err, lock.ErrHeld) {
				w.Errorf("got %v, want it to be held", err)
			}
			if err := w.renew(renewalOf("n", "o", f)); err != nil {
				w.Error(err)
			}
			if _, err := w.Store.Extend(w.Context(), renewalOf("n", "o", f)); err != nil {
				w.Error(err)
			}
			if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Owner != "o" {
				w.Errorf("got %+v, %v", st, err)
			}
			if _, err := w.Store.Probe(w.Context()); err != nil {
				w.Error(err)
			}
			w.give(w.Store, returnOf("n", "o", f))
		}
		took = time.Since(begun)
	})
	return took
}

func TestMembersMayBeFarAway(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i, n := range w.nodes {
			n.lag(time.Duration(150+60*i) * time.Millisecond)
		}
		begun := time.Now()
		f := w.take(w.Store, claimOf("n", "o")).Fence
		if took := time.Since(begun); took != 270*time.Millisecond {
			t.Errorf("it took %v, want the time of the third", took)
		}
		if err := w.renew(renewalOf("n", "o", f)); err != nil {
			t.Error(err)
		}
		w.give(w.Store, returnOf("n", "o", f))
		time.Sleep(time.Second)
		w.wantHolders("n", "", "", "", "", "")
	})
}

func TestAGrantThatComesTooLateIsNotTold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		for _, n := range w.nodes {
			n.lag(600 * time.Millisecond)
		}
		c := claimOf("n", "o")
		c.TTL = 600 * time.Millisecond
		if g, err := w.Store.Acquire(w.Context(), c); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %+v, %v, want an unknown outcome", g, err)
		}
		c.TTL = 650 * time.Millisecond
		w.take(w.Store, c)
	})
}

// The lease at the members is longer than what is told, by what their clocks may be fast.
func TestMembersAreAskedForTheDriftAsWell(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		g := w.take(w.Store, claimOf("n", "o"))
		if g.TTL != 10*time.Second {
			t.Errorf("got %v, want what was asked for", g.TTL)
		}
		synctest.Wait()
		for _, n := range w.nodes {
			if st, _ := n.Store.Look(w.Context(), "n"); st.TTL != 10*time.Second+102*time.Millisecond {
				t.Errorf("a member has it for %v", st.TTL)
			}
		}
	})
}

// What a minority granted to an attempt that failed is given back, whenever it answers.
func TestAFailedAttemptLeavesNothing(t *testing.T) {
	for name, fault := range map[string]func(n *node){
		"in time":        func(*node) {},
		"late":           func(n *node) { n.lag(200 * time.Millisecond) },
		"without a word": func(n *node) { n.choose(onceNoReply("acquire")) },
		"executed late":  func(n *node) { n.choose(once("acquire", fate{noReply: true, before: 1500 * time.Millisecond})) },
		"released late":  func(n *node) { n.choose(once("release", fate{noRequest: true})) },
	} {
		inWorld(t, 5, Config{}, func(w *world) {
			for i := range 3 {
				w.puts(i, claimOf("n", "other"))
			}
			fault(w.nodes[3])
			_, err := w.Store.Acquire(w.Context(), claimOf("n", "o"))
			held, ok := errors.AsType[*lock.HeldError](err)
			if !ok || held.HeldBy != "other" || held.RetryAfter < 9*time.Second || held.RetryAfter > 10*time.Second {
				t.Errorf("%s: got %+v, %v, want it to be held", name, held, err)
			}
			time.Sleep(5 * time.Second)
			w.wantHolders("n", "other", "other", "other", "", "")
		})
	}
}

// once has the first call of an operation meet a fate.
func once(op string, f fate) func(string) fate {
	met := false
	return func(called string) fate {
		if called != op || met {
			return fate{}
		}
		met = true
		return f
	}
}

func onceNoReply(op string) func(string) fate { return once(op, fate{noReply: true}) }

func TestWithoutAMajorityNothingIsTaken(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i := range 3 {
			w.nodes[i].becomes(down)
		}
		for _, do := range []func() error{
			func() error { _, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); return err },
			func() error {
				_, err := w.Store.AcquireAll(w.Context(), []lock.Claim{claimOf("n", "o"), claimOf("m", "o")})
				return err
			},
			func() error { _, err := w.Store.Probe(w.Context()); return err },
			func() error { _, err := w.Store.Look(w.Context(), "n"); return err },
		} {
			if err := do(); !errors.Is(err, lock.ErrNoQuorum) && !errors.Is(err, lock.ErrOutcomeUnknown) {
				t.Errorf("got %v, want no majority", err)
			}
		}
		_, err := w.Store.Acquire(w.Context(), claimOf("n", "o"))
		if !errors.Is(err, lock.ErrNoQuorum) {
			t.Errorf("got %v, want no majority", err)
		}
		synctest.Wait()
		w.wantHolders("n", "", "", "", "", "")
		w.wantHolders("m", "", "", "", "", "")
	})
}

// If so many are silent that a majority may have it, nothing is known, and a repetition finds it out.
func TestASilentMajorityLeavesItUnknown(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i := range 3 {
			w.nodes[i].choose(onceNoReply("acquire"))
		}
		_, err := w.Store.Acquire(w.Context(), claimOf("n", "o"))
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		w.wantHolders("n", "o", "o", "o", "o", "o")
		w.take(w.Store, claimOf("n", "o"))
	})
}

// Several claimants that meet do not meet for ever.
func TestASplitVoteEnds(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i, n := range w.nodes {
			n.lag(time.Duration(1+i) * time.Millisecond)
		}
		for range 50 {
			granted := make(chan lock.Owner, 3)
			begun := time.Now()
			for _, o := range []lock.Owner{"a", "b", "c"} {
				s := w.another(Config{})
				go func() {
					for tries := 0; ; tries++ {
						_, err := s.Acquire(context.Background(), claimOf("n", o))
						if err == nil {
							granted <- o
							return
						}
						held, ok := errors.AsType[*lock.HeldError](err)
						if !ok || held.RetryAfter > time.Second {
							granted <- ""
							return
						}
						time.Sleep(held.RetryAfter)
					}
				}()
			}
			winners := 0
			for range 3 {
				if <-granted != "" {
					winners++
				}
			}
			if took := time.Since(begun); winners != 1 || took > time.Second {
				t.Fatalf("%d were granted in %v", winners, took)
			}
			synctest.Wait()
			for _, n := range w.nodes {
				n.Expire("n")
			}
		}
	})
}

// A split vote is told as a short pause, not as the lease of somebody who has no majority.
func TestNobodyWaitsForALeaseThatNoMajorityHas(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i, o := range []lock.Owner{"a", "a", "b", "b", "c"} {
			w.puts(i, claimOf("n", o))
		}
		_, err := w.Store.Acquire(w.Context(), claimOf("n", "o"))
		held, ok := errors.AsType[*lock.HeldError](err)
		if !ok || held.RetryAfter > time.Second {
			t.Errorf("got %+v, %v, want a short pause", held, err)
		}
		for i, o := range []lock.Owner{"a", "a", "b", "b", "c"} {
			_, _ = w.nodes[i].Store.Release(w.Context(), returnOf("n", o, 0))
		}
		for i, ttl := range []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second, 0, 0} {
			c := claimOf("n", "a")
			if c.TTL = ttl; ttl > 0 {
				w.puts(i, c)
			}
		}
		_, err = w.Store.Acquire(w.Context(), claimOf("n", "o"))
		held, ok = errors.AsType[*lock.HeldError](err)
		if !ok || trusted(3*time.Second) != held.RetryAfter {
			t.Errorf("got %+v, %v, want the time when a third member is free", held, err)
		}
	})
}

func TestSeveralNamesAreAllOrNone(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		w.puts(0, claimOf("m", "other"))
		w.puts(1, claimOf("m", "other"))
		cs := []lock.Claim{claimOf("n", "o"), claimOf("m", "o")}
		_, err := w.Store.AcquireAll(w.Context(), cs)
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.Name != "m" {
			t.Errorf("got %v, want m to be in the way", err)
		}
		synctest.Wait()
		w.wantHolders("n", "", "", "")
		w.wantHolders("m", "other", "other", "")
		w.give(w.Store, returnOf("m", "other", 0))
		gs, err := w.Store.AcquireAll(w.Context(), cs)
		if err != nil || len(gs) != 2 {
			t.Fatalf("got %v, %v", gs, err)
		}
		for i, c := range cs {
			w.give(w.Store, returnOf(c.Name, "o", gs[i].Fence))
		}
	})
}

// A member that was away when a hold was released hears of it later, and one that takes the hold late gives it back.
func TestAReleaseReachesAllMembers(t *testing.T) {
	for name, during := range map[string]func(n *node){
		"down":   func(n *node) { n.becomes(down) },
		"silent": func(n *node) { n.becomes(silent) },
	} {
		inWorld(t, 3, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			during(w.nodes[2])
			w.give(w.Store, returnOf("n", "o", f))
			time.Sleep(2 * time.Second)
			w.nodes[2].becomes(fate{})
			time.Sleep(4 * time.Second)
			if o := w.nodes[2].has("n"); o != "" {
				t.Errorf("%s: %q has it yet", name, o)
			}
		})
	}
	inWorld(t, 3, Config{}, func(w *world) {
		w.nodes[2].choose(once("acquire", fate{before: 100 * time.Millisecond}))
		f := w.take(w.Store, claimOf("n", "o")).Fence
		w.give(w.Store, returnOf("n", "o", f))
		time.Sleep(110 * time.Millisecond)
		w.wantHolders("n", "", "", "")
	})
}

// A majority that did not reply to a release has nothing left when that is repeated. A member that was away meanwhile
// has the hold yet: it is asked until it gives it back.
func TestARepeatedReleaseReachesAllMembers(t *testing.T) {
	for _, successor := range []lock.Owner{"", "successor"} {
		for _, away := range []fate{down, silent} {
			inWorld(t, 3, Config{}, func(w *world) {
				c := claimOf("n", "o")
				c.TTL = time.Hour
				f := w.take(w.Store, c).Fence
				synctest.Wait()
				w.nodes[0].choose(onceNoReply("release"))
				w.nodes[1].choose(onceNoReply("release"))
				w.nodes[2].becomes(away)
				if _, err := w.Store.Release(w.Context(), returnOf("n", "o", f)); !errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				r := returnOf("n", "o", f)
				if successor != "" {
					r = toSuccessor("o", f, successor)
				}
				if _, err := w.Store.Release(w.Context(), r); !errors.Is(err, lock.ErrNotHeld) {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				w.nodes[2].becomes(fate{})
				time.Sleep(5 * time.Second)
				w.wantHolders("n", "", "", "")
			})
		}
	}
}

// What a late release ends is never the hold of a later attempt.
func TestAReleaseOfAFailedAttemptDoesNotEndTheNext(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		w.puts(0, claimOf("n", "other"))
		w.puts(1, claimOf("n", "other"))
		w.nodes[2].choose(once("release", fate{before: 300 * time.Millisecond}))
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		w.nodes[0].Expire("n")
		w.nodes[1].Expire("n")
		w.nodes[1].becomes(down)
		f := w.take(w.Store, claimOf("n", "o")).Fence // with the node whose release is under way
		time.Sleep(time.Second)
		w.wantHolders("n", "o", "", "o")
		if err := w.renew(renewalOf("n", "o", f)); err != nil {
			t.Error(err)
		}
	})
}

func TestAForcedReleaseIsThatOfAMajority(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[0].becomes(down)
		w.nodes[1].becomes(silent)
		if held, err := w.Store.ForceRelease(w.Context(), "n", lock.Exclusive); err != nil || !held {
			t.Errorf("got %v, %v", held, err)
		}
		w.nodes[0].becomes(fate{})
		w.nodes[1].becomes(fate{})
		gone, ok := errors.AsType[*lock.GoneError](w.renew(renewalOf("n", "o", f)))
		if !ok || gone.Reason != lock.LostForced {
			t.Errorf("got %v, want it to be gone by force", gone)
		}
		w.nodes[2].becomes(down)
		w.nodes[3].becomes(down)
		w.nodes[4].becomes(down)
		if held, err := w.Store.ForceRelease(w.Context(), "n", lock.Exclusive); err == nil {
			t.Errorf("without a majority: got %v", held)
		}
	})
}

// A member never shortens a hold after the call has returned.
func TestShortenWaitsForAll(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[2].lag(400 * time.Millisecond)
		r := renewalOf("n", "o", f)
		r.TTL = time.Second
		begun := time.Now()
		if err := w.Store.Shorten(w.Context(), r); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.TTL > time.Second {
			t.Errorf("got %+v, %v", st, err)
		}
	})
}

// Members that do not vote yet make no majority: who is refused by others waits for the holds there, and does not ask
// again every few milliseconds.
func TestWhoNeedsAMemberThatDoesNotVoteWaits(t *testing.T) {
	for _, restarted := range []int{2, 3} {
		inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
			for _, n := range w.nodes[:restarted] {
				n.restart()
			}
			w.puts(4, claimOf("n", "other"))
			_, err := w.Store.Acquire(w.Context(), claimOf("n", "o"))
			held, ok := errors.AsType[*lock.HeldError](err)
			if !ok || held.RetryAfter < 9*time.Second {
				t.Errorf("%d do not vote: got %+v, %v, want to wait for the hold", restarted, held, err)
			}
		})
	}
}
