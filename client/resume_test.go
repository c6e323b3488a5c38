package client

import (
	"context"
	"fmt"
	"testing"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/benchtest"
)

// A client that was cut off for longer than its leases releases all of them by itself. When it is back the server tells
// of each that it is lost, or that it is there yet, while each release waits for its answer.
func TestManyHoldsThatAreBeingReleasedAreResumedOneByOne(t *testing.T) {
	for name, tell := range map[string]func(*lockdv1.Opened, *lockdv1.Hold){
		"lost": func(o *lockdv1.Opened, h *lockdv1.Hold) { o.Lost = append(o.Lost, &lockdv1.Lost{Hold: h}) },
		"resumed": func(o *lockdv1.Opened, h *lockdv1.Hold) {
			o.Resumed = append(o.Resumed, &lockdv1.HeldLock{Hold: h})
		},
	} {
		t.Run(name, func(t *testing.T) {
			benchtest.Linear(t, 500, func(n int) func() {
				s, opened := dialled(t).newSession(), &lockdv1.Opened{}
				b := &bid{claimed: make(map[holdKey]*lockdv1.HeldLock)}
				for i := range n {
					h := &lockdv1.Hold{
						Name: fmt.Sprintf("name-%06d", i), Kind: lockdv1.LockKind(Exclusive), Holder: "#1", Fence: uint64(i + 1),
					}
					s.submitLocked(s.newLock(context.Background(), h).releaseCall())
					b.claimed[keyOf(h)] = &lockdv1.HeldLock{Hold: h}
					tell(opened, h)
				}
				st := &stream{session: s}
				return func() {
					s.resumedLocked(st, b, opened)
					if left := len(s.pending); name == "lost" && left > 0 || name == "resumed" && left != n {
						t.Errorf("%d releases of %d wait for their answers", left, n)
					}
				}
			})
		})
	}
}
