package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// lateEnd is a context that ends while an answer comes, so that nobody was told of it yet.
type lateEnd struct {
	context.Context
	over *atomic.Bool
}

func (lateEnd) Done() <-chan struct{} { return nil }

func (c lateEnd) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// TestATryThatWasAnsweredSaysSo has a context end in the moment in which the answer comes.
func TestATryThatWasAnsweredSaysSo(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "n")
		var over atomic.Bool
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			over.Store(over.Load() || r.GetAcquire() != nil)
			return false
		})
		_, err := c.TryLock(lateEnd{t.Context(), &over}, "n")
		wantError(t, err, client.ErrHeld)
		if errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, client.ErrCancelled) {
			t.Errorf("got %v, want only that it is held", err)
		}
	})
}
