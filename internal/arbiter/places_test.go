package arbiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// fairLine is a queue of fair waiters whose places are kept.
type fairLine struct {
	q   Queue[int]
	ws  []*Waiter[int]
	now time.Time
}

func newFairLine(n int) *fairLine {
	l := &fairLine{now: time.Unix(1_000_000, 0)}
	l.q.Held(true, 0)
	for i := range n {
		w := &Waiter[int]{Claim: lock.Claim{Kind: lock.Fair, Owner: lock.Owner(fmt.Sprint(i))}, Wait: Forever}
		l.q.Arrive(w)
		l.q.Place(w, l.now)
		l.ws = append(l.ws, w)
	}
	return l
}

// begin begins a round, and returns the waiters of its first piece.
func (l *fairLine) begin() []lock.Owner {
	l.now = l.now.Add(PlaceTime)
	l.q.places.round = nil
	return l.next()
}

// next returns the next piece of the round, empty at its end.
func (l *fairLine) next() (owners []lock.Owner) {
	for _, w := range l.q.Next(l.now).Keep {
		owners = append(owners, w.Claim.Owner)
	}
	return owners
}

func TestPlacesAreKeptInPieces(t *testing.T) {
	const waiters, piece = 5000, 500
	line, pieces := newFairLine(waiters), 0
	for due := line.begin(); len(due) > 0; due = line.next() {
		if pieces++; len(due) > piece {
			t.Errorf("a piece has %d places, want %d at most", len(due), piece)
		}
	}
	if pieces != waiters/piece {
		t.Errorf("got %d pieces", pieces)
	}
}

// TestARoundKeepsEveryPlaceWhoeverMovesMeanwhile moves waiters to the front and takes some out between its pieces.
func TestARoundKeepsEveryPlaceWhoeverMovesMeanwhile(t *testing.T) {
	for seed := range tier.Pick[uint64](5, 20) {
		r := rand.New(rand.NewPCG(seed, 1))
		const n = 2000
		line, kept, gone := newFairLine(n), map[lock.Owner]bool{}, map[int]bool{}
		for due := line.begin(); len(due) > 0; due = line.next() {
			for _, o := range due {
				kept[o] = true
			}
			at := len(kept) + len(gone) // about where the round goes on
			for _, i := range []int{at - 1, at, at + 1, at + 2, r.IntN(n), r.IntN(n)} {
				switch {
				case i < 0 || i >= n || gone[i]:
				case r.IntN(2) == 0:
					line.q.toFront(line.ws[i])
				default:
					line.q.Leave(line.ws[i])
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
