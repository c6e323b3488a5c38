package broker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// named is a further replica with a name of its own.
func (w *world) named(name string) *world {
	cfg := testConfig()
	cfg.Replica = name
	return start(w.t, cfg, w.store)
}

// as opens a session of a client that says who it is.
func (w *world) as(client string) *client {
	return w.openWith(session.OpenRequest{Client: session.Client{
		Name: client, Peer: client + ":1", Labels: map[string]string{"team": client},
	}})
}

func (w *world) inspect(name string) inspect.Inspection {
	w.t.Helper()
	in, err := w.b.Inspect(w.t.Context(), name, 100, 100)
	must(w.t, err)
	return in
}

// silentStore loses all messages that are published, but says that they were heard.
type silentStore struct{ *faults }

func (silentStore) Publish(context.Context, string, []byte) (int, error) { return 2, nil }

func TestAReplicaThatDoesNotAnswerCostsASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		w.as("billing").take("door")
		lonely := startOn(w.t, testConfig(), silentStore{w.store})
		begun := time.Now()
		in := lonely.inspect("door")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v, want a second", took)
		}
		if in.Asked != 2 || in.Answered != 1 || len(in.Holders) != 1 || in.Holders[0].Client.Name != "" {
			t.Errorf("got %+v, want the holder without its client, and one answer of two", in)
		}
	})
}

func TestInspectionsUnderWayAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		lonely := startOn(w.t, testConfig(), silentStore{w.store})
		var mu sync.Mutex
		var refused int
		for range 100 {
			go func() {
				_, err := lonely.b.Inspect(context.Background(), "door", 1, 1)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, session.ErrQuota) {
					refused++
				}
			}()
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if refused != 84 {
			t.Errorf("%d of 100 were refused, want all but 16", refused)
		}
		if in := lonely.inspect("door"); in.Answered != 1 {
			t.Errorf("later: got %+v", in)
		}
	})
}

// slowLists is a store that takes its time for lists, and knows how many it made at a time.
type slowLists struct {
	*faults
	now, most atomic.Int32
}

func (l *slowLists) List(context.Context, string, string, int) ([]lock.State, string, error) {
	l.most.Store(max(l.most.Load(), l.now.Add(1)))
	defer l.now.Add(-1)
	time.Sleep(250 * time.Millisecond)
	return nil, "", nil
}

func TestListsUnderWayAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		store := &slowLists{faults: w.store}
		r := startOn(w.t, testConfig(), store)
		var refused atomic.Int32
		list := func(ctx context.Context) error {
			_, _, err := r.b.Locks(ctx, "", "", 1000)
			return err
		}
		for range 100 {
			go func() {
				if errors.Is(list(context.Background()), session.ErrQuota) {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := list(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that gave up waiting: got %v", err)
		}
		time.Sleep(3 * time.Second)
		if n := store.most.Load(); n != 2 {
			t.Errorf("%d lists were read at a time, want 2", n)
		}
		if n := refused.Load(); n < 90 || n > 94 {
			t.Errorf("%d of 100 were refused, want all but those that had their turn within a second", n)
		}
		if err := list(context.Background()); err != nil {
			t.Errorf("later: got %v", err)
		}
	})
}

func TestNotesOfUnaryCallersAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 12_000 {
			w.mustOnce(request.Once{Name: name(i), Client: "cron", Lease: time.Hour})
		}
		if h := w.inspect(name(0)).Holders; len(h) != 1 || h[0].Client.Name != "" {
			t.Errorf("the oldest: got %+v, want a holder of whom nothing is remembered", h)
		}
		if h := w.inspect(name(11_999)).Holders; len(h) != 1 || h[0].Client.Name != "cron" {
			t.Errorf("the newest: got %+v", h)
		}
	})
}

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
