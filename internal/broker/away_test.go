package broker_test

import (
	"context"
	"testing"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// unread is a store that cannot be read, and carries no messages.
type unread struct{ *faults }

func (unread) Look(context.Context, string) (lock.State, error) {
	return lock.State{}, lock.ErrUnavailable
}

func (unread) Holders(context.Context, string, int) ([]lock.Holder, error) {
	return nil, lock.ErrUnavailable
}

func (unread) Queue(context.Context, string, int) ([]lock.Owner, error) {
	return nil, lock.ErrUnavailable
}

func (unread) Publish(context.Context, string, []byte) (int, error) { return 0, lock.ErrUnavailable }

// While the store is away an operator sees what the replica remembers, and that the rest is missing.
func TestWhileTheStoreIsAwayThisReplicaTellsWhatItRemembers(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read} {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				cfg := testConfig()
				cfg.Replica = "east"
				east := startOn(w.t, cfg, unread{w.store})
				req := request.Acquire{Name: "door", Kind: k, Annotation: "nightly"}
				g := east.as("billing").takeAs(req)
				if k != lock.Read {
					east.as("next").queueAs(req)
				}
				waiting := 1
				if k == lock.Read {
					waiting = 0
				}

				in := east.inspect("door")
				if in.Unasked == "" || len(in.Holders) != 1 || len(in.Waiters) != waiting || !in.Lock.Held {
					t.Fatalf("inspect tells %+v", in)
				}
				few, err := east.b.Inspect(w.t.Context(), "door", 1, 0)
				if err != nil || few.Lock.Waiters != waiting || len(few.Waiters) != 0 {
					t.Errorf("who asks for no waiters is told %+v, %v, want how many there are", few, err)
				}
				if h := in.Holders[0]; h.Client.Name != "billing" || h.Fence != g.Hold.Fence || h.TTL <= 0 || h.Replica != "east" {
					t.Errorf("the holder is told as %+v", h)
				}
				all, asking, err := east.b.WaitersEverywhere(w.t.Context(), inspect.Filter{}, 10)
				if err != nil || asking.Unasked == "" || len(all) != waiting {
					t.Errorf("all waiters are %+v, %+v, %v", all, asking, err)
				}
				sessions, _, asking, err := east.b.SessionsEverywhere(w.t.Context(), inspect.Filter{}, "", 10)
				if err != nil || asking.Unasked == "" || len(sessions) != 1+waiting {
					t.Errorf("the sessions are %+v, %+v, %v", sessions, asking, err)
				}
				leases, _, asking, err := east.b.LeasesEverywhere(w.t.Context(), inspect.Filter{}, "", 10)
				if err != nil || asking.Unasked == "" || len(leases) != 1 {
					t.Errorf("the leases are %+v, %+v, %v", leases, asking, err)
				}
			})
		})
	}
}
