package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
)

// room is a place for one at a time, whose fences rise. It excuses who was told that its lock is lost.
type room struct {
	mu     sync.Mutex // guards the fields below
	inside key
	last   uint64
	visits int
	faults []error
}

// key is what somebody comes in with: a lock of the SDK.
type key interface {
	Fence() uint64
	Err() error
}

func (r *room) visit(k key) {
	r.mu.Lock()
	if k.Fence() <= r.last && k.Err() == nil {
		r.faults = append(r.faults, fmt.Errorf("fence %d after %d", k.Fence(), r.last))
	}
	if other := r.inside; other != nil && other.Err() == nil && k.Err() == nil {
		r.faults = append(r.faults, fmt.Errorf("two holders: fences %d and %d", other.Fence(), k.Fence()))
	}
	r.inside, r.last, r.visits = k, k.Fence(), r.visits+1
	r.mu.Unlock()
	time.Sleep(200 * time.Microsecond) // so that others can be met
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == k {
		r.inside = nil
	}
}

// verdict is what was wrong, and how many visits there were.
func (r *room) verdict() (visits int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visits, errors.Join(r.faults...)
}

// forged is a key that no server gave.
type forged struct{ fence uint64 }

func (f *forged) Fence() uint64 { return f.fence }
func (f *forged) Err() error    { return nil }

// A checker that cannot fail proves nothing.
func TestRoomCatchesALockThatDoesNotLock(t *testing.T) {
	var alone, together room
	alone.visit(&forged{5})
	alone.visit(&forged{5})
	if _, err := alone.verdict(); err == nil {
		t.Error("a fence that did not rise was not noticed")
	}
	var fence atomic.Uint64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				together.visit(&forged{fence.Add(1)})
			}
		})
	}
	all.Wait()
	if _, err := together.verdict(); err == nil {
		t.Error("two holders were not noticed")
	}
}

func TestTwoReplicasExcludeEachOther(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	each, r := tier.Pick(20, 200), &room{}
	var all sync.WaitGroup
	for range 8 {
		for _, c := range []*client.Client{a.Dial(t), b.Dial(t)} {
			all.Go(func() {
				for range each {
					if err := pass(t.Context(), c, "job", r); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if visits, err := r.verdict(); err != nil || visits != 16*each {
		t.Errorf("%d visits of %d: %v", visits, 16*each, err)
	}
}

// pass locks, visits and unlocks.
func pass(ctx context.Context, c *client.Client, name string, r *room, opts ...client.LockOption) error {
	l, err := c.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	r.visit(l)
	return l.Unlock(context.WithoutCancel(ctx))
}
