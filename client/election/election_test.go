package election_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Two candidates of one process, with one ID and one client, lead one after the other.
func TestOneOfTwoLeadsAndTheOtherWhenItResigns(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*client.Client, string) *election.Election{
		"exclusive": election.New, "fair": election.NewFair,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.Dial(t, addr, client.WithName("host"), client.WithSessionTTL(10*time.Minute))
			e := at(c, t.Name())
			// It would learn too late by itself what is not pushed.
			observer := observes(t, at(harness.Dial(t, addr), t.Name()).Trust(time.Hour))
			observer.want(t, "")
			first := leads(t, e, "same")
			told := observer.want(t, "same")
			if told.Fence != first.Fence() || told.Client != "host" || told.Annotation != "about same" || told.TTL <= 0 {
				t.Errorf("told %+v of fence %d", told, first.Fence())
			}
			next := campaigns(t, e, election.Candidate{ID: "same"})
			waiting(t, c, e.Name(), 1)
			if err := first.Err(); err != nil {
				t.Errorf("while another one waits: %v", err)
			}
			work := first.Context()
			harness.Must(t, first.Resign(t.Context()))
			if cause := context.Cause(work); !errors.Is(cause, client.ErrUnlocked) {
				t.Errorf("the work ended by %v", cause)
			}
			if err := first.Resign(t.Context()); !errors.Is(err, client.ErrNotHeld) {
				t.Errorf("another Resign: %v", err)
			}
			second := harness.Soon(t, "the other one leads", next)
			if second.Fence() <= first.Fence() {
				t.Errorf("fence %d after %d", second.Fence(), first.Fence())
			}
			if told := observer.want(t, "same"); told.Fence != second.Fence() {
				t.Errorf("told %+v, want fence %d", told, second.Fence())
			}
			harness.Must(t, second.Resign(t.Context()))
			observer.want(t, "")
		})
	}
}

// resource refuses who is not the latest leader, as docs/election.md shows it.
type resource struct {
	mu    sync.Mutex // guards the field below
	fence uint64
}

var errDeposed = errors.New("another leader wrote later")

func (r *resource) write(fence uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence {
		return errDeposed
	}
	r.fence = fence
	return nil
}

func TestALossEndsTheTermWithItsCause(t *testing.T) {
	t.Parallel()
	e := election.New(harness.Dial(t, addr), t.Name())
	old := leads(t, e, "old")
	next := campaigns(t, election.New(harness.Dial(t, addr), t.Name()), election.Candidate{ID: "new"})
	var r resource
	harness.Must(t, r.write(old.Fence()))
	forced(t, t.Name())
	harness.Soon(t, "the work ends", old.Context().Done())
	lost, ok := errors.AsType[*client.LostError](context.Cause(old.Context()))
	if !ok || lost.Reason != client.LostForced || !errors.Is(old.Err(), client.ErrLost) {
		t.Errorf("ended by %v", context.Cause(old.Context()))
	}
	harness.Must(t, r.write(harness.Soon(t, "the other one leads", next).Fence()))
	if err := r.write(old.Fence()); !errors.Is(err, errDeposed) {
		t.Errorf("what the old one wrote late: %v", err)
	}
	if err := old.Resign(t.Context()); !errors.Is(err, client.ErrLost) {
		t.Errorf("Resign of a term that was lost: %v", err)
	}
}

// A campaign that is cancelled, wherever it is, leaves neither a hold nor a place in the queue.
func TestACancelledCampaignLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*client.Client, string) *election.Election{
		"exclusive": election.New, "fair": election.NewFair,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.Dial(t, addr)
			e := at(c, t.Name())
			leader := leads(t, e, "leader")
			for i := range tier.Pick(60, 1000) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
				term, err := e.Campaign(ctx, election.Candidate{ID: "gives up"})
				cancel()
				if !errors.Is(err, client.ErrCancelled) {
					t.Fatalf("got %v, %v", term, err)
				}
			}
			waiting(t, c, e.Name(), 0)
			harness.Must(t, leader.Resign(t.Context()))
			harness.Until(t, "nothing is left", func() bool {
				info, err := c.Look(t.Context(), e.Name())
				return err == nil && !info.Held && info.Queued == 0
			})
			for held, err := range c.Holds(t.Context(), "") {
				t.Errorf("%+v, %v is left", held, err)
			}
		})
	}
}

// Replicas and their store fail one after the other. What is observed elsewhere, and who campaigns, outlive that.
func TestOutagesAreOutlived(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t)
	a, b := harness.StartLockdWith(t, "--redis", store.Addr), harness.StartLockdWith(t, "--redis", store.Addr)
	lead := election.New(harness.Dial(t, a.Addr+","+b.Addr, client.WithSessionTTL(10*time.Minute)), "job")
	term := leads(t, lead, "10.0.0.1:80")
	elsewhere := harness.Dial(t, b.Addr, client.WithAnswerTimeout(5*time.Second))
	observer := observes(t, election.New(elsewhere, "job").Trust(time.Second))
	if told := observer.want(t, "10.0.0.1:80"); told.Fence != term.Fence() {
		t.Errorf("told at another replica %+v, want fence %d", told, term.Fence())
	}

	a.Kill() // the term goes on at b, with its fence
	next := campaigns(t, election.New(harness.Dial(t, b.Addr), "job"), election.Candidate{ID: "10.0.0.2:80"})
	waiting(t, harness.Dial(t, b.Addr), "job", 1)

	b.Kill() // nobody can tell
	if told, err, _ := observer(); !errors.Is(err, client.ErrUnavailable) || told.Fence != term.Fence() {
		t.Errorf("told %+v, %v while the server is away", told, err)
	}
	a.Restart()
	b.Restart()
	observer.want(t, "10.0.0.1:80")
	if err := term.Err(); err != nil {
		t.Errorf("the term after both replicas were killed: %v", err)
	}
	harness.Must(t, term.Resign(t.Context()))
	second := harness.Soon(t, "the other one leads", next)
	if told := observer.want(t, "10.0.0.2:80"); told.Fence != second.Fence() {
		t.Errorf("told %+v, want fence %d", told, second.Fence())
	}

	store.Stop() // whoever campaigns now is refused, and tries again
	next = campaigns(t, election.New(harness.Dial(t, a.Addr), "other"), election.Candidate{ID: "patient"})
	harness.Until(t, "the replica knows that its store is away", func() bool {
		_, err := harness.Dial(t, a.Addr).TryLock(t.Context(), "any")
		return errors.Is(err, client.ErrUnavailable)
	})
	store.Restart()
	harness.Soon(t, "the patient one leads", next)
}

// A leader that is cut off knows by itself when its term is over.
func TestAServerThatStandsStillEndsTheTermInTime(t *testing.T) {
	t.Parallel()
	d := harness.StartLockdWith(t)
	term := leads(t, election.New(harness.Dial(t, d.Addr, client.WithSessionTTL(3*time.Second)), "job"), "cut off")
	d.Signal(syscall.SIGSTOP)
	harness.Soon(t, "the work ends", term.Context().Done())
	if !errors.Is(term.Err(), client.ErrLost) || time.Now().Before(term.Lock().Deadline()) {
		t.Errorf("ended by %v", term.Err())
	}
	d.Signal(syscall.SIGCONT)
}

func TestObserveEndsWithItsContextAndItsClient(t *testing.T) {
	t.Parallel()
	c, err := client.Dial(addr)
	harness.Must(t, err)
	e := election.New(c, t.Name())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	for _, err := range e.Observe(ctx) {
		harness.Must(t, err)
		told++
		cancel()
	}
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	var last error
	for _, err := range e.Observe(t.Context()) {
		last = err
		go c.Close()
	}
	if !errors.Is(last, client.ErrClosed) {
		t.Errorf("the last is %v", last)
	}
	if _, err := e.Campaign(t.Context(), election.Candidate{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a campaign after Close: %v", err)
	}
}
