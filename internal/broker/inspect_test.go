package broker_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
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
	return w.openWith(broker.OpenRequest{Client: session.Client{
		Name: client, Peer: client + ":1", Labels: map[string]string{"team": client},
	}})
}

func (w *world) inspect(name string) inspect.Inspection {
	w.t.Helper()
	in, err := w.b.Inspect(w.t.Context(), name, 100, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

// inspectWhole is inspect of all replicas.
func (w *world) inspectWhole(name string, replicas int) inspect.Inspection {
	w.t.Helper()
	in := w.inspect(name)
	if in.Asked != replicas || in.Answered != replicas {
		w.t.Fatalf("%d of %d replicas answered, want all %d", in.Answered, in.Asked, replicas)
	}
	return in
}

func TestEveryReplicaNamesTheHolderAndAllWaiters(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Write} {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				east, west := w.named("east"), w.named("west")
				req := request.Acquire{Name: "door", Kind: k, Annotation: "nightly"}
				holder := east.as("billing")
				g := holder.takeAs(req)
				time.Sleep(time.Second)
				west.as("first").queueAs(req)
				time.Sleep(time.Second)
				bounded := req
				bounded.Wait, bounded.Annotation = new(time.Minute), "once"
				east.as("second").queueAs(bounded)
				for _, at := range []*world{w, east, west} {
					checkInspection(t, at.inspectWhole("door", 3), g)
				}
			})
		})
	}
}

// checkInspection compares with what TestEveryReplicaNamesTheHolderAndAllWaiters made.
func checkInspection(t *testing.T, in inspect.Inspection, g session.Granted) {
	t.Helper()
	if len(in.Holders) != 1 || len(in.Waiters) != 2 {
		t.Fatalf("got %+v, want a holder and two waiters", in)
	}
	h := in.Holders[0]
	if h.Client.Name != "billing" || h.Client.Peer != "billing:1" || h.Client.Labels["team"] != "billing" ||
		h.Replica != "east" || h.Annotation != "nightly" || h.Fence != g.Hold.Fence || h.Age != 2*time.Second ||
		h.Origin != inspect.OriginSession || h.Kind != g.Hold.Kind || !h.Auto || h.Count != 1 || h.TTL <= 0 {
		t.Errorf("the holder is told as %+v", h)
	}
	byClient := map[string]inspect.Waiter{}
	for _, w := range in.Waiters {
		byClient[w.Client] = w
	}
	first, second := byClient["first"], byClient["second"]
	if first.Replica != "west" || first.Age != time.Second || first.TimeLeft != 0 || first.Annotation != "nightly" {
		t.Errorf("the first waiter is told as %+v", first)
	}
	if second.Replica != "east" || second.TimeLeft != time.Minute || second.Peer != "second:1" {
		t.Errorf("the second waiter is told as %+v", second)
	}
	if g.Hold.Kind == lock.Fair && (first.Position != 0 || second.Position != 1 || in.Waiters[0].Client != "first") {
		t.Errorf("fair waiters are told as %+v", in.Waiters)
	}
}

func TestReadersOfAllReplicasAreNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.named("there")
		for i := range 3 {
			w.as("here-" + strconv.Itoa(i)).takeAs(request.Acquire{Name: "door", Kind: lock.Read})
			there.as("there-" + strconv.Itoa(i)).takeAs(request.Acquire{Name: "door", Kind: lock.Read})
		}
		in := w.inspectWhole("door", 2)
		names := map[string]bool{}
		for _, h := range in.Holders {
			names[h.Client.Name] = true
		}
		if len(in.Holders) != 6 || len(names) != 6 {
			t.Errorf("got %+v, want six readers with their clients", in.Holders)
		}
		some, err := there.b.Inspect(w.t.Context(), "door", 2, 1)
		if err != nil || len(some.Holders) != 2 {
			t.Errorf("got %d holders, %v, want the two that were asked for", len(some.Holders), err)
		}
	})
}

func TestPermitsAreToldByWhoHasThem(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.named("there")
		w.as("here").takeAs(permits(2, 9))
		there.as("there").takeAs(permits(3, 9))
		_, err := w.store.Acquire(w.t.Context(), lock.Claim{ // by somebody whom no replica knows
			Name: "pool", Kind: lock.Semaphore, Owner: "stranger", Count: 1, TTL: time.Minute, Permits: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint32{}
		for _, h := range w.inspectWhole("pool", 2).Holders {
			got[h.Client.Name] = h.Permits
		}
		if len(got) != 3 || got["here"] != 2 || got["there"] != 3 || got[""] != 1 {
			t.Errorf("got %v, want 2, 3 and one of nobody known", got)
		}
	})
}

func TestUnaryHoldersAreNamedWhereverTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.named("there")
		l := there.mustOnce(request.Once{Name: "door", Client: "cron", Peer: "10.0.0.1:1", Annotation: "backup"})
		time.Sleep(time.Second)
		in := w.inspectWhole("door", 2)
		if len(in.Holders) != 1 {
			t.Fatalf("got %+v, want one holder", in.Holders)
		}
		h := in.Holders[0]
		if h.Origin != inspect.OriginUnary || h.Client.Name != "cron" || h.Client.Peer != "10.0.0.1:1" ||
			h.Replica != "there" || h.Annotation != "backup" || h.Fence != l.Fence || h.Age != time.Second {
			t.Errorf("got %+v", h)
		}
		if _, err := w.b.ExtendOnce(request.Once{
			Name: "door", Kind: lock.Exclusive, LeaseID: l.LeaseID, Lease: time.Hour,
		}); err != nil { // elsewhere
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if h := w.inspectWhole("door", 2).Holders[0]; h.Client.Name != "cron" || h.TTL < 50*time.Minute {
			t.Errorf("extended by another replica: got %+v", h)
		}
		if _, err := there.b.ReleaseOnce(request.Once{
			Name: "door", Kind: lock.Exclusive, LeaseID: l.LeaseID,
		}); err != nil {
			t.Fatal(err)
		}
		if in := w.inspectWhole("door", 2); len(in.Holders) != 0 || in.Lock.Held {
			t.Errorf("got %+v after the release", in)
		}
	})
}

func TestUnaryPermitsAreToldAsLongAsTheyAreHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.named("there")
		take := func(client string) broker.OnceLease {
			req := request.Once{Name: "pool", Kind: lock.Semaphore, Permits: 4, Limit: 9, Lease: time.Hour, Client: client}
			l, refused, err := there.b.AcquireOnce(w.t.Context(), req)
			if refused != nil || err != nil {
				t.Fatalf("got %v, %v, want a lease", refused, err)
			}
			return l
		}
		first, second := take("first"), take("second")
		if left, err := there.b.ReleaseOnce(request.Once{
			Name: "pool", Kind: lock.Semaphore, LeaseID: second.LeaseID, Keep: 1,
		}); left != 1 || err != nil {
			t.Fatalf("got %d, %v", left, err)
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "pool", Kind: lock.Semaphore, LeaseID: first.LeaseID,
		}); err != nil { // "there" is not told
			t.Fatal(err)
		}
		in := w.inspectWhole("pool", 2)
		if len(in.Holders) != 1 || in.Holders[0].Client.Name != "second" || in.Holders[0].Permits != 1 ||
			in.Lock.Holders != 1 {
			t.Errorf("got %+v, %d permits, want one of the second", in.Holders, in.Lock.Holders)
		}
	})
}

func TestForeignAndForgottenHoldersAreToldAsSuch(t *testing.T) {
	const redisson = "0f5b5a52-9a4e-4b76-8c0e-0d7f7f0f1a11:42"
	const session = "0f5b5a52-9a4e-4b76-8c0e-0d7f7f0f1a11"
	inWorld(t, func(w *world) {
		for name, c := range map[string]struct {
			owner   lock.Owner
			origin  inspect.Origin
			session string
		}{
			"theirs": {redisson, inspect.OriginRedisson, ""},
			"gone":   {session + ":#7", inspect.OriginSession, session},
			"named":  {session + ":worker#7", inspect.OriginSession, session},
			"unary":  {session + ":unary", inspect.OriginUnary, ""},
		} {
			claim := lock.Claim{Name: name, Kind: lock.Exclusive, Owner: c.owner, Count: 1, TTL: time.Minute}
			if _, err := w.store.Acquire(w.t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			in := w.inspectWhole(name, 1)
			if len(in.Holders) != 1 || in.Holders[0].Origin != c.origin || in.Holders[0].Session != c.session {
				t.Errorf("%s: got %+v", name, in.Holders)
			}
		}
	})
}

// mute loses all messages that are published, but says that they were heard.
type mute struct{ *faults }

func (m mute) Publish(context.Context, string, []byte) (int, error) { return 2, nil }

func TestAReplicaThatDoesNotAnswerCostsASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		w.as("billing").take("door")
		lonely := startOn(w.t, testConfig(), mute{w.store})
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
		lonely := startOn(w.t, testConfig(), mute{w.store})
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

// TestARefusalSaysWhoHoldsTheLock fails if a request that is refused is told no more of the holder than its owner,
// where this replica knows the client. Of a holder elsewhere it knows the owner only.
func TestARefusalSaysWhoHoldsTheLock(t *testing.T) {
	long := strings.Repeat("x", 300)
	for what, row := range map[string]struct {
		held   lock.Kind
		wanted lock.Kind
		once   bool
		more   []request.Item
	}{
		"exclusive":      {held: lock.Exclusive, wanted: lock.Exclusive},
		"a reader":       {held: lock.Read, wanted: lock.Write},
		"a unary lease":  {held: lock.Exclusive, wanted: lock.Exclusive, once: true},
		"one of several": {held: lock.Read, wanted: lock.Exclusive, more: []request.Item{{Name: "job", Kind: lock.Write}}},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if row.once {
					_, refused, err := w.b.AcquireOnce(w.t.Context(), request.Once{
						Name: "job", Kind: row.held, Lease: time.Minute, Client: "backup", Annotation: long,
					})
					if err != nil || refused != nil {
						t.Fatal(err, refused)
					}
				} else {
					holder := w.as("backup")
					holder.acquire(request.Acquire{Name: "job", Kind: row.held, Annotation: long})
					one[session.Granted](holder)
				}
				req := request.Acquire{Name: "job", Kind: row.wanted, Wait: new(time.Duration)}
				if row.more != nil {
					req.Name, req.More = "first", row.more
				}
				c := w.as("other")
				c.acquire(req)
				n := c.notGranted(lock.ErrHeld)
				if n.Client != "backup" || n.Annotation != long[:256] || n.HeldBy == "" {
					t.Errorf("got %+v, want the client that holds it and the beginning of its annotation", n)
				}
				far := w.replica().as("far")
				far.acquire(req)
				if n := far.notGranted(lock.ErrHeld); n.Client != "" || n.Annotation != "" || n.HeldBy == "" {
					t.Errorf("elsewhere: got %+v, want the owner alone", n)
				}
			})
		})
	}
}
