package redlock

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A member that did not answer when a reader gave one of its holds back may do so later, and takes a newer one then. So
// it does not count for a newer one, however that is asked for.
func TestANestedReadIsNotOfMembersThatMayCountItDownYet(t *testing.T) {
	for how, ask := range map[string]func(w *world, c lock.Claim, r lock.Renewal) error{
		"acquired": func(w *world, c lock.Claim, _ lock.Renewal) error {
			w.nodes[0].becomes(down)
			_, err := w.Store.Acquire(w.Context(), c)
			return err
		},
		"renewed": func(w *world, c lock.Claim, r lock.Renewal) error {
			w.take(w.Store, c)
			synctest.Wait()
			w.nodes[0].becomes(down)
			return w.renew(r)
		},
		"extended": func(w *world, c lock.Claim, r lock.Renewal) error {
			w.take(w.Store, c)
			synctest.Wait()
			w.nodes[0].becomes(down)
			_, err := w.Store.Extend(w.Context(), r)
			return err
		},
	} {
		inWorld(t, 3, Config{}, func(w *world) {
			c := claimOf("n", "o")
			c.Kind, c.TTL = lock.Read, 2*time.Second
			c.Fence = w.take(w.Store, c).Fence
			c.Count, c.TTL = 2, 5*time.Second
			w.take(w.Store, c)
			synctest.Wait()
			w.nodes[2].choose(once("release", fate{noReply: true, before: 1900 * time.Millisecond}))
			back := returnOf("n", "o", c.Fence)
			back.Kind, back.Remaining = lock.Read, 1
			w.give(w.Store, back)
			time.Sleep(1100 * time.Millisecond)
			r := renewalOf("n", "o", c.Fence)
			r.Kind, r.Level = lock.Read, 2
			begun := time.Now()
			until := begun.Add(c.TTL)
			err := ask(w, c, r)
			if how != "acquired" {
				until = begun.Add(r.TTL)
			}
			w.nodes[0].becomes(fate{})
			time.Sleep(time.Until(until) - time.Second)
			write := claimOf("n", "other")
			write.Kind = lock.Write
			if _, other := w.Store.Acquire(w.Context(), write); err == nil && other == nil {
				t.Errorf("%s: it is written and read", how)
			}
		})
	}
}

// To note one hold more costs the same however many there are.
func TestManyHoldsAreInDoubtQuickly(t *testing.T) {
	d := memory[holdingAt, struct{}]{most: maxKnown}
	begun := time.Now()
	for i := range maxKnown {
		d.put(holdingAt{0, holding{name: strconv.Itoa(i)}}, struct{}{}, underWay)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if !d.has(holdingAt{0, holding{name: "0"}}) {
		t.Error("the first one is forgotten")
	}
}
