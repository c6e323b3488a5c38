package broker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// TestPlacesAreKeptInPieces compares what is done under the mutex for few and for many fair waiters.
func TestPlacesAreKeptInPieces(t *testing.T) {
	few, many := broker.NewFairLine(1000), broker.NewFairLine(100_000)
	small, large := quickest(func() { few.Begin() }), quickest(func() { many.Begin() })
	t.Logf("1,000 waiters: %v, 100,000 waiters: %v", small, large)
	if large > 8*small {
		t.Errorf("%v with 1,000 waiters, but %v with 100,000", small, large)
	}
}

// TestARoundKeepsEveryPlaceWhoeverMovesMeanwhile moves waiters to the front and takes some out between its pieces.
func TestARoundKeepsEveryPlaceWhoeverMovesMeanwhile(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		const n = 5000
		line, kept, gone := broker.NewFairLine(n), map[lock.Owner]bool{}, map[int]bool{}
		for due := line.Begin(); len(due) > 0; due = line.Go() {
			for _, o := range due {
				kept[o] = true
			}
			next := len(kept) + len(gone) // about where the round goes on
			for _, i := range []int{next - 1, next, next + 1, next + 2, r.IntN(n), r.IntN(n)} {
				switch {
				case i < 0 || i >= n || gone[i]:
				case r.IntN(2) == 0:
					line.ToFront(i)
				default:
					line.Leave(i)
					gone[i] = true
				}
			}
		}
		for i := range n {
			if !gone[i] && !kept[lock.Owner(fmt.Sprint(i))] {
				t.Fatalf("seed %d: the place of waiter %d was not kept", seed, i)
			}
		}
	}
}

// TestManyFairWaitersKeepTheirPlacesAndOrder lets more of them wait than are kept at a time.
func TestManyFairWaitersKeepTheirPlacesAndOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.replica().alive()
		holder.takeKind("job", lock.Fair)
		const n = 1700
		c := w.alive()
		for i := range n {
			c.Acquire(uint64(i+1), broker.AcquireRequest{Name: "job", Kind: lock.Fair})
		}
		order := func() (owners []lock.Owner) {
			infos, err := w.b.Waiters(t.Context(), "job", 0, 2*n)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range infos {
				owners = append(owners, i.Owner)
			}
			return owners
		}
		time.Sleep(10 * time.Second)
		before := order()
		time.Sleep(30 * time.Second)
		after := order()
		if len(before) != n || len(after) != n {
			t.Fatalf("%d waiters have places, and %d half a minute later, want %d", len(before), len(after), n)
		}
		for i := range after {
			if before[i] != after[i] {
				t.Fatalf("place %d was that of %s and is that of %s", i, before[i], after[i])
			}
		}
	})
}
