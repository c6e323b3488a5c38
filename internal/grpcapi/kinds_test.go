package grpcapi_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// ask sends an Acquire and returns its first answer.
func (c *stream) ask(id uint64, a *lockdv1.Acquire) *lockdv1.SessionResponse {
	c.t.Helper()
	c.send(acquire(id, a))
	m := c.recv()
	if m.GetRequestId() != id {
		c.t.Fatalf("got %v, want the answer to %d", m, id)
	}
	return m
}

func (s *server) get(name string) *lockdv1.LockState {
	s.t.Helper()
	r, err := lockdv1.NewLockServiceClient(s.conn).Get(s.t.Context(), &lockdv1.GetRequest{Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetLock()
}

func TestSeveralAtOnce(t *testing.T) {
	inBubble(t, func(s *server) {
		c, other := s.open(&lockdv1.Open{}), s.open(&lockdv1.Open{})
		if most := c.opened.GetLimits().GetNamesPerAcquire(); most != 4 {
			t.Errorf("told of %d names", most)
		}
		g := c.ask(1, &lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
			item("z", write, 0, 0), item("a", semaphore, 2, 5), item("m", fair, 0, 0),
		}}).GetGranted()
		var names []string
		for _, h := range g.GetHolds() {
			names = append(names, h.GetName())
			if h.GetFence() == 0 || h.GetHolder() != "#1" {
				t.Errorf("got %v", h)
			}
		}
		if !slices.Equal(names, []string{"z", "a", "m"}) || g.GetValidity().GetRemaining() == nil || !g.GetAuto() {
			t.Fatalf("got %v", g)
		}
		if n := other.ask(1, &lockdv1.Acquire{
			Names: []string{"free", "m"},
			Wait:  seconds(0),
		}).GetNotGranted(); n.GetCause() != lockdv1.NotGranted_CAUSE_HELD {
			t.Errorf("got %v", n)
		}
		if s.get("free").GetHeld() {
			t.Error("a part of what was not granted is held")
		}
		if other.ask(2, &lockdv1.Acquire{Names: []string{"free", "m"}}).GetQueued() == nil {
			t.Error("want Queued")
		}
		for i, h := range g.GetHolds() {
			c.send(&lockdv1.SessionRequest{RequestId: uint64(10 + i), Message: &lockdv1.SessionRequest_Release{
				Release: &lockdv1.Release{Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence()},
			}})
			if m := c.recv(); m.GetReleased() == nil {
				t.Errorf("release %s: %v", h.GetName(), m)
			}
		}
		if g := other.recv().GetGranted(); len(g.GetHolds()) != 2 {
			t.Errorf("the waiter got %v", g)
		}
	})
}

func TestReadersAWriterAndAnUpgrade(t *testing.T) {
	inBubble(t, func(s *server) {
		a, b := s.open(&lockdv1.Open{}), s.open(&lockdv1.Open{})
		for i, c := range []*stream{a, b} {
			if c.ask(1, &lockdv1.Acquire{Name: "rw", Kind: read, Holder: "h"}).GetGranted() == nil {
				t.Fatalf("reader %d was not let in", i)
			}
		}
		if l := s.get("rw"); l.GetKind() != read || l.GetHolders() != 2 || l.GetHeldBy() == "" {
			t.Errorf("got %v", l)
		}
		m := a.ask(2, &lockdv1.Acquire{Name: "rw", Kind: write, Holder: "h"})
		if m.GetResult().GetFailure().GetReason() != "LOCK_UPGRADE" {
			t.Errorf("got %v", m)
		}
		if n := a.ask(3, &lockdv1.Acquire{Name: "rw", Kind: write, Wait: seconds(0)}).GetNotGranted(); n == nil {
			t.Error("a writer was let in to the readers")
		}
	})
}

func TestPermitsAndTheirLimit(t *testing.T) {
	inBubble(t, func(s *server) {
		locks, inspect, ctx := lockdv1.NewLockServiceClient(s.conn), lockdv1.NewInspectServiceClient(s.conn), s.t.Context()
		c := s.open(&lockdv1.Open{ClientName: "pool"})
		if c.ask(1, &lockdv1.Acquire{Name: "pool", Kind: semaphore, Permits: 2, Limit: 5}).GetGranted() == nil {
			t.Fatal("not granted")
		}
		got, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{
			Name: "pool", Kind: semaphore, Permits: 2, Limit: 5,
			Lease: seconds(10),
		})
		if err != nil || got.GetGranted() == nil {
			t.Fatalf("got %v, %v", got, err)
		}
		if l := s.get("pool"); l.GetKind() != semaphore || l.GetHolders() != 4 || l.GetLimit() != 5 {
			t.Errorf("got %v", l)
		}
		busy, err := locks.Acquire(ctx,
			&lockdv1.AcquireRequest{Name: "pool", Kind: semaphore, Permits: 2, Lease: seconds(10)})
		if err != nil || busy.GetNotGranted() == nil {
			t.Errorf("got %v, %v", busy, err)
		}
		_, err = locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: "pool", Kind: semaphore, Limit: 6, Lease: seconds(10)})
		if reasonOf(status.Convert(err)) != "LOCK_CONFIG_MISMATCH" {
			t.Errorf("got %v", err)
		}
		in, err := inspect.Inspect(ctx, &lockdv1.InspectRequest{Name: "pool"})
		if err != nil || len(in.GetHolders()) != 2 || in.GetHolders()[0].GetPermits() != 2 {
			t.Errorf("got %v, %v", in, err)
		}
		_, err = locks.Release(ctx, &lockdv1.ReleaseRequest{
			Name: "pool", Kind: semaphore,
			LeaseId: got.GetGranted().GetLeaseId(),
		})
		if err != nil {
			t.Error(err)
		}
		if l := s.get("pool"); l.GetHolders() != 2 {
			t.Errorf("got %v", l)
		}
	})
}

func TestListHoldsGoesOnInsideOfAName(t *testing.T) {
	inBubble(t, func(s *server) {
		c, inspect := s.open(&lockdv1.Open{ClientName: "reader"}), lockdv1.NewInspectServiceClient(s.conn)
		for id := range uint64(3) {
			if c.ask(id+1, &lockdv1.Acquire{Name: "rw", Kind: read}).GetGranted() == nil {
				t.Fatal("not granted")
			}
		}
		fences, token := map[uint64]bool{}, ""
		for range 10 {
			r, err := inspect.ListHolds(s.t.Context(),
				&lockdv1.ListHoldsRequest{PageSize: 1, PageToken: token, Client: "reader"})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range r.GetHolds() {
				fences[h.GetHolder().GetFence()] = true
			}
			if token = r.GetNextPageToken(); token == "" {
				break
			}
		}
		if len(fences) != 3 || token != "" {
			t.Errorf("got %v, then %q", fences, token)
		}
	})
}

func TestTheQueueOfAFairLock(t *testing.T) {
	inBubble(t, func(s *server) {
		locks, inspect := lockdv1.NewLockServiceClient(s.conn), lockdv1.NewInspectServiceClient(s.conn)
		c := s.open(&lockdv1.Open{ClientName: "bob"})
		if c.ask(1, &lockdv1.Acquire{Name: "job", Kind: fair}).GetGranted() == nil {
			t.Fatal("not granted")
		}
		if q := c.ask(2, &lockdv1.Acquire{Name: "job", Kind: fair}).GetQueued(); q == nil || q.GetPosition() != 0 {
			t.Errorf("got %v", q)
		}
		done := make(chan error, 1)
		go func() {
			_, err := locks.Acquire(s.t.Context(),
				&lockdv1.AcquireRequest{Name: "job", Kind: fair, Lease: seconds(10), Wait: seconds(3)})
			done <- err
		}()
		synctest.Wait()
		if l := s.get("job"); l.GetKind() != fair || l.GetQueued() != 2 || l.GetWaiters() != 2 {
			t.Errorf("got %v", l)
		}
		r, err := inspect.ListWaiters(s.t.Context(), &lockdv1.ListWaitersRequest{Name: "job"})
		ws := r.GetWaiters()
		if err != nil || len(ws) != 2 || ws[0].GetClientName() != "bob" ||
			ws[0].GetOwner() != c.opened.GetSessionId()+":#2" || ws[1].GetPosition() != 1 || ws[1].GetOwner() == "" {
			t.Errorf("got %v, %v", ws, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
