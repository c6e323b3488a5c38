package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

func TestWatch(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		ctx, cancel := context.WithCancel(t.Context())
		events, err := c.Watch(ctx, "n")
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			f.session(0).send(0, &lockdv1.Unlocked{Name: "n"})
		}
		synctest.Wait()
		told, merged := len(events), 0
		for range told {
			e := <-events
			merged += int(e.Merged)
			if e.Gap || e.Name != "n" {
				t.Errorf("got %+v", e)
			}
		}
		if told+merged != 100 || told < 10 || told == 100 {
			t.Errorf("100 unlocks were told in %d events, with %d merged", told, merged)
		}
		f.session(0).send(0, &lockdv1.Unlocked{Name: "n", Cause: lockdv1.Unlocked_CAUSE_EXPIRED, Fence: 7})
		if e := <-events; e != (client.Unlocked{Name: "n", Cause: client.UnlockExpired, Fence: 7}) {
			t.Errorf("got %+v", e)
		}
		for _, u := range []*lockdv1.Unlocked{
			{Name: "n", Fence: 7},
			{Name: "n", Fence: 8},
			{Name: "n", Hold: "permit a"},
			{Name: "n", Fence: 9, Hold: "permit a"},
			{Name: "n", Fence: 7, Merged: 1},
			{Name: "n", Fence: 10, Hold: "permit b"},
		} {
			f.session(0).send(0, u)
		}
		for _, fence := range []uint64{8, 0, 7, 10} {
			if e := <-events; e.Fence != fence {
				t.Errorf("got %+v, want fence %d: the others are repeats", e, fence)
			}
		}
		f.session(0).end(status.Error(codes.Unavailable, "cable cut"))
		if e := <-events; !e.Gap {
			t.Errorf("got %+v after an interruption", e)
		}
		f.session(1).send(0, &lockdv1.Unlocked{Name: "n", Fence: 8}) // a repeat also here
		f.session(1).send(0, &lockdv1.Unlocked{Name: "n"})
		if e := <-events; e.Gap || e.Fence != 0 {
			t.Errorf("got %+v, want a plain event", e)
		}
		cancel()
		if e, open := <-events; open {
			t.Errorf("got %+v after the end", e)
		}
	})
}

func TestWatchIsRefused(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		refuse := false
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetWatch() == nil || !refuse {
				return false
			}
			s.send(r.GetRequestId(), failure(codes.ResourceExhausted, "QUOTA_WATCHES"))
			return true
		})
		c := f.dial(t)
		events, err := c.Watch(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refuse = true
		_, err = c.Watch(t.Context(), "m")
		wantError(t, err, client.ErrQuota)
		f.session(0).end(nil)
		if e, open := <-events; open {
			t.Errorf("got %+v, want the channel closed", e)
		}
	})
}
