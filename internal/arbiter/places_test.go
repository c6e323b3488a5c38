package arbiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A round keeps the places of all, in pieces, whoever leaves and comes between them.
func TestPlacesAreKeptInPieces(t *testing.T) {
	const waiters, piece = 5000, 500
	var q Queue[int]
	var ws []*Waiter[int]
	q.Held(true, 0)
	now := time.Unix(1_000_000, 0)
	come := func() {
		w := &Waiter[int]{Claim: lock.Claim{Kind: lock.Fair, Owner: lock.Owner(fmt.Sprint(len(ws)))}, Wait: Forever}
		q.Arrive(w)
		q.Place(w, now)
		ws = append(ws, w)
	}
	for range waiters {
		come()
	}
	for round := range 3 {
		now = now.Add(PlaceTime)
		pieces, kept := 0, map[*Waiter[int]]bool{}
		for due := q.Next(now).Keep; len(due) > 0; due = q.Next(now).Keep {
			if pieces++; len(due) > piece {
				t.Errorf("a piece has %d places, want %d at most", len(due), piece)
			}
			for _, w := range due {
				if w.Answered() {
					t.Errorf("the place of waiter %s is kept, which left", w.Claim.Owner)
				}
				kept[w] = true
			}
			for _, i := range []int{round, 300 + round, 600 + round} { // some of those before and behind this piece
				q.Leave(ws[min(len(kept)+i, len(ws)-1)])
				q.Leave(ws[max(len(kept)-i, 0)])
			}
			if pieces < waiters/piece {
				come()
			}
		}
		if want := waiters / piece; pieces < want || pieces > want+1 {
			t.Errorf("got %d pieces, want %d", pieces, want)
		}
		for _, w := range ws {
			if !w.Answered() && !kept[w] {
				t.Fatalf("round %d: the place of waiter %s was not kept", round, w.Claim.Owner)
			}
		}
	}
}

// One that moves to a queue may be older than nearly all there, or younger: it does not pass them one by one.
func TestAPlaceIsFoundFromBothEnds(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	come := func(q *Queue[int], at int) *Waiter[int] {
		w := &Waiter[int]{Since: now.Add(time.Duration(at)), Wait: Forever}
		q.Arrive(w)
		return w
	}
	for _, at := range []int{1, 8} {
		var q Queue[int]
		var ws []*Waiter[int]
		for i := range 10 {
			ws = append(ws, come(&q, 2*i))
		}
		ws[5].behind, ws[5].before = nil, nil // who looks there goes no further
		if w := come(&q, 2*at+1); w.before != ws[at] || w.behind != ws[at+1] {
			t.Errorf("it stands elsewhere than behind %d", at)
		}
	}
}
