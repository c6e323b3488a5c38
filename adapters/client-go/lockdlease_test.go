package lockdlease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	lockdlease "github.com/lockd-io/lockd/adapters/client-go"
	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

func record(id string, lease int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: id, LeaseDurationSeconds: lease, LeaderTransitions: 7}
}

// leader is who leads as an elector sees it.
func leader(t *testing.T, lock *lockdlease.Lock) string {
	t.Helper()
	r, raw, err := lock.Get(t.Context())
	harness.Must(t, err)
	if len(raw) == 0 {
		t.Error("a record without its bytes")
	}
	return r.HolderIdentity
}

func forced(t *testing.T, name string) {
	t.Helper()
	conn, err := grpc.NewClient(adminAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	harness.Must(t, err)
	defer conn.Close()
	_, err = lockdv1.NewAdminServiceClient(conn).ForceRelease(t.Context(),
		&lockdv1.ForceReleaseRequest{Name: name, By: "test", Why: "test"})
	harness.Must(t, err)
}

// What client-go expects of a resource lock, step by step.
func TestRecordsAreThoseOfTheLock(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := lockdlease.New(harness.Dial(t, addr), t.Name(), "a")
	b := lockdlease.New(harness.Dial(t, addr), t.Name(), "b")
	if got := leader(t, a); got != "" {
		t.Errorf("%q leads at first", got)
	}
	if err := a.Create(ctx, record("a", 0)); !errors.Is(err, lockdlease.ErrDuration) {
		t.Errorf("less than a second: %v", err)
	}
	harness.Must(t, a.Create(ctx, record("a", 60)))
	first := a.Term().Fence()
	if err := b.Update(ctx, record("b", 60)); !errors.Is(err, client.ErrHeld) {
		t.Errorf("while another one leads: %v", err)
	}
	if of, by := leader(t, b), leader(t, a); of != "a" || by != "a" {
		t.Errorf("%q and %q lead, want a", of, by)
	}
	if r, _, err := a.Get(ctx); err != nil || r.LeaderTransitions != 7 {
		t.Errorf("got %+v, %v, want what was written", r, err)
	}
	other := lockdlease.New(harness.Dial(t, addr), t.Name(), "a") // after a restart, with the same identity
	if got := leader(t, other); got == "a" || got == "" {
		t.Errorf("%q leads, as an elector that does not", got)
	}
	_, before, _ := b.Get(ctx)
	time.Sleep(1100 * time.Millisecond) // records have seconds
	if _, after, _ := b.Get(ctx); string(before) == string(after) {
		t.Error("a record that does not change would seem not to be renewed")
	}
	harness.Must(t, a.Update(ctx, record("a", 120)))
	if left := a.Term().ValidFor(); left < 108*time.Second {
		t.Errorf("valid for %v after a renewal for 120 s", left)
	}

	forced(t, t.Name())
	harness.Must(t, b.Update(ctx, record("b", 60)))
	harness.Soon(t, "the loss is known", a.Term().Lost())
	if err := a.Update(ctx, record("a", 60)); !errors.Is(err, lockdlease.ErrMustStop) || !errors.Is(err, client.ErrLost) {
		t.Errorf("the renewal of a deposed leader: %v", err)
	}
	if got := leader(t, a); got != "b" {
		t.Errorf("a deposed leader sees %q lead, want b", got)
	}
	harness.Must(t, b.Update(ctx, record("", 1)))
	if err := a.Update(ctx, record("a", 60)); !errors.Is(err, lockdlease.ErrMustStop) {
		t.Errorf("it leads again without having stopped: %v", err)
	}
	a.RecordEvent("stopped leading")
	harness.Must(t, a.Update(ctx, record("a", 60)))
	if a.Term().Fence() <= first {
		t.Error("the fence did not rise")
	}
	a.RecordEvent("became leader")
	second := a.Term()
	a.RecordEvent("stopped leading") // without a release: the lease runs out later
	forced(t, t.Name())
	harness.Soon(t, "the loss is known", second.Lost())
	harness.Must(t, a.Update(ctx, record("a", 60)))
	harness.Must(t, a.Update(ctx, record("", 1)))
	harness.Must(t, a.Update(ctx, record("", 1)))
	if got := leader(t, b); got != "" || a.Term() != nil {
		t.Errorf("%q leads after the release", got)
	}
}

// A killed leader is followed after LeaseDuration; a stopped one knows it when it goes on.
func TestAnotherLeadsWhenTheLeaderIsKilledOrStopped(t *testing.T) {
	t.Parallel()
	first := startElector(t, "first")
	harness.Until(t, "the first one leads", func() bool { return wrote(first) > 0 })
	second := startElector(t, "second")
	first.Kill()
	harness.Until(t, "the second one leads", func() bool { return wrote(second) > 0 })
	if wrote(second) <= wrote(first) {
		t.Errorf("fence %d after %d", wrote(second), wrote(first))
	}
	third := startElector(t, "third")
	second.Signal(syscall.SIGSTOP)
	harness.Until(t, "the third one leads", func() bool { return wrote(third) > wrote(second) })
	before := strings.Count(second.Stdout.String(), "write")
	second.Signal(syscall.SIGCONT)
	second.Code() // its elector stops
	if out := second.Stdout.String(); !strings.Contains(out, "over") || !strings.Contains(out, "stopped") ||
		strings.Count(out, "write") > before+1 { // it may have been stopped between the question and writing
		t.Errorf("after SIGCONT: %q", out[max(0, len(out)-200):])
	}
}

// lease is that of electors which often lose it.
const lease = time.Second

// stage is where leaders meet.
type stage struct {
	enough func() // ends the play
	now    atomic.Pointer[client.Lock]
	terms  atomic.Int64
	late   atomic.Int64 // terms that an elector believed in for too long
}

// play runs electors one after the other until the test ends, each as a process that is restarted does.
func (s *stage) play(ctx context.Context, t *testing.T, lock *lockdlease.Lock) {
	t.Helper()
	cfg := config(lock, func(ctx context.Context, term *client.Lock) {
		if s.terms.Add(1) == tier.Pick[int64](4, 60) {
			s.enough()
		}
		before := s.now.Swap(term)
		if before != nil && before.Err() == nil {
			t.Errorf("two lead at once: fences %d and %d", before.Fence(), term.Fence())
		}
		if before != nil && before.Fence() >= term.Fence() {
			t.Errorf("fence %d after %d", term.Fence(), before.Fence())
		}
		<-ctx.Done()
	})
	cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = lease, 500*time.Millisecond, 200*time.Millisecond
	guarded := cfg.Callbacks.OnStartedLeading
	cfg.Callbacks.OnStartedLeading = func(ctx context.Context) { // what the elector itself says
		term := lock.Term()
		guarded(ctx)
		<-ctx.Done()
		if term != nil && errors.Is(term.Err(), client.ErrLost) {
			s.late.Add(1)
		}
	}
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(cfg)
		if err != nil {
			t.Error(err)
			return
		}
		elector.Run(ctx)
	}
}

// Two electors whose connections are cut, made silent and slow, each for itself, never lead at once.
func TestTwoElectorsNeverLeadAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer cancel()
	s := stage{enough: cancel}
	var all sync.WaitGroup
	for i := range 2 {
		proxy := redistest.StartProxy(t, addr)
		c := harness.Dial(t, proxy.Addr, client.WithSessionTTL(5*time.Second))
		lock := lockdlease.New(c, t.Name(), fmt.Sprint("elector ", i))
		all.Go(func() { s.play(ctx, t, lock) })
		all.Go(func() { disturb(ctx, proxy) })
	}
	all.Wait()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("only %d terms", s.terms.Load())
	}
	t.Logf("%d terms; the elector ended %d of them later than the lock", s.terms.Load(), s.late.Load())
}

// disturb lets the connections of one elector be, and then not.
func disturb(ctx context.Context, p *redistest.Proxy) {
	pause := func(least, most time.Duration) {
		select {
		case <-time.After(least + rand.N(most-least)):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		pause(100*time.Millisecond, lease)
		switch rand.IntN(4) {
		case 0:
			p.Set(redistest.Cut)
		case 1:
			p.Set(redistest.Stall)
		case 2:
			p.Set(redistest.Deaf)
		default:
			p.CutAll()
		}
		pause(100*time.Millisecond, 2*lease)
		p.Set(redistest.Pass)
	}
	p.CutAll()
}

// An elector that is cancelled releases the lock, so that another one leads at once.
func TestACancelledElectorReleases(t *testing.T) {
	t.Parallel()
	c := harness.Dial(t, addr)
	lock := lockdlease.New(c, t.Name(), "first")
	leads, ctx := make(chan uint64, 1), t.Context()
	running, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		leaderelection.RunOrDie(running, config(lock, func(_ context.Context, term *client.Lock) { leads <- term.Fence() }))
	}()
	fence := harness.Soon(t, "it leads", leads)
	cancel()
	harness.Soon(t, "it stopped", stopped)
	l, err := c.TryLock(ctx, t.Name())
	harness.Must(t, err)
	if l.Fence() <= fence || lock.Term() != nil {
		t.Errorf("fence %d after %d, term %v", l.Fence(), fence, lock.Term())
	}
}

// runElector has an elector run until it is stopped. The channel has each leader of which it is told.
func runElector(t *testing.T, id string) (e *leaderelection.LeaderElector, leaders <-chan string, stop func()) {
	t.Helper()
	told := make(chan string, 10)
	lock := lockdlease.New(harness.Dial(t, addr), t.Name(), id)
	cfg := config(lock, func(ctx context.Context, _ *client.Lock) { <-ctx.Done() })
	cfg.Callbacks.OnNewLeader = func(id string) {
		if id != "" { // else nobody leads at the moment
			told <- id
		}
	}
	e, err := leaderelection.NewLeaderElector(cfg)
	harness.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	return e, told, func() { cancel(); running.Wait() }
}

// Each elector is told who leads, and knows whether it is itself, as OnNewLeader, GetLeader and IsLeader document.
func TestEachElectorIsToldWhoLeads(t *testing.T) {
	t.Parallel()
	a, leadersOfA, stopA := runElector(t, "a")
	if got := harness.Soon(t, "a leader", leadersOfA); got != "a" || !a.IsLeader() {
		t.Fatalf("%q leads, want a, which knows it: %t", got, a.IsLeader())
	}
	b, leadersOfB, stopB := runElector(t, "b")
	defer stopB()
	if got := harness.Soon(t, "a leader", leadersOfB); got != "a" || b.GetLeader() != "a" || b.IsLeader() {
		t.Fatalf("%q leads, want a; b is told of %q", got, b.GetLeader())
	}
	if err := a.Check(0); err != nil {
		t.Errorf("a leader whose lease is good: %v", err)
	}
	stopA()
	if got := harness.Soon(t, "another leader", leadersOfB); got != "b" || !b.IsLeader() {
		t.Fatalf("%q leads after a has stopped, want b", got)
	}
}

// A loss that no renewal met ends the work at once, and the elector leads again only after it has stopped.
func TestAForcedLossEndsTheWorkAtOnce(t *testing.T) {
	t.Parallel()
	lock := lockdlease.New(harness.Dial(t, addr), t.Name(), "only")
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan string, 10)
	cfg := config(lock, func(ctx context.Context, term *client.Lock) {
		events <- "begun"
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), client.ErrLost) {
			t.Errorf("ended by %v", context.Cause(ctx))
		}
		events <- "over"
	})
	cfg.Callbacks.OnStoppedLeading = func() { events <- "stopped"; cancel() }
	go leaderelection.RunOrDie(ctx, cfg)
	for _, want := range []string{"begun", "over", "stopped"} {
		if got := harness.Soon(t, want, events); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if want == "begun" {
			forced(t, t.Name())
		}
	}
}

// An answer that comes late is no renewal, and no term: the elector may rely on too little of the lease.
func TestALateAnswerIsNone(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, addr)
	lock := lockdlease.New(harness.Dial(t, proxy.Addr), t.Name(), "far")
	harness.Until(t, "an answer comes in time", func() bool {
		err := lock.Create(t.Context(), record("far", 10))
		if err != nil && !errors.Is(err, lockdlease.ErrLate) {
			t.Fatal(err)
		}
		return err == nil
	})
	proxy.Delay(1200 * time.Millisecond)
	if err := lock.Update(t.Context(), record("far", 10)); !errors.Is(err, lockdlease.ErrLate) {
		t.Errorf("a late renewal: %v", err)
	}
	harness.Must(t, lock.Update(t.Context(), record("", 1)))
	if err := lock.Update(t.Context(), record("far", 10)); !errors.Is(err, lockdlease.ErrLate) || lock.Term() != nil {
		t.Errorf("a late term: %v", err)
	}
	l, err := harness.Dial(t, addr).Lock(t.Context(), t.Name(), client.Wait(harness.Patience))
	harness.Must(t, err) // it was released
	harness.Must(t, l.Unlock(t.Context()))
}
