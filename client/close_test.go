package client_test

import (
	"sync/atomic"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// TestCloseDoesNotTakeABrokenStreamForAnAnswer has the stream break when Goodbye comes. The lock is still held, and
// Close must not say that it is released.
// It fails if session.leave takes any end of the session for the one that was asked for.
func TestCloseDoesNotTakeABrokenStreamForAnAnswer(t *testing.T) {
	for _, holds := range []bool{true, false} {
		bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
			c := f.dial(t)
			l := mustLock(t, c, "job")
			if !holds {
				harness.Must(t, l.Unlock(t.Context()))
			}
			f.setHook(func(_ *fakeStream, r *lockdv1.SessionRequest) bool { return r.GetGoodbye() != nil })
			err := c.Close()
			if holds {
				wantError(t, err, client.ErrOutcomeUnknown)
			} else if err != nil {
				t.Errorf("Close, with nothing held: %v", err)
			}
		})
	}
}

// TestCloseMayBeCalledByWhoIsTold has Close called by each function that the SDK calls.
// It fails if one of them is called by a goroutine that Close waits for.
func TestCloseMayBeCalledByWhoIsTold(t *testing.T) {
	for _, when := range []client.State{client.Connected, client.Draining, client.Interrupted, client.Disconnected} {
		t.Run(string(when), func(t *testing.T) {
			bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
				var c atomic.Pointer[client.Client]
				closed := make(chan struct{})
				c.Store(f.dial(t, client.WithOnStatus(func(st client.Status) {
					if st.State == when {
						_ = c.Load().Close()
						close(closed)
					}
				})))
				_, _ = c.Load().TryLock(t.Context(), "job")
				switch when {
				case client.Draining:
					f.stream(-1).send(0, &lockdv1.Draining{})
				case client.Interrupted:
					f.stream(-1).stop <- errCut
				case client.Disconnected:
					f.stream(-1).stop <- errGone
				default:
				}
				<-closed
			})
		})
	}
	t.Run("queued", func(t *testing.T) {
		bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
			mustLock(t, f.dial(t), "job")
			c := f.dial(t)
			_, err := c.Lock(t.Context(), "job", client.OnQueued(func(int) { _ = c.Close() }))
			wantError(t, err, client.ErrClosed)
		})
	})
}
