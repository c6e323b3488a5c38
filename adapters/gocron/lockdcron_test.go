package lockdcron_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	lockdcron "github.com/lockd-io/lockd/adapters/gocron"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
	"github.com/lockd-io/lockd/test/harness"
)

// addr is a real server with its leases in memory.
var addr string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.WithLockd(func(d *harness.Lockd) error {
		addr = d.Addr
		return nil
	})))
}

func schedule(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	harness.Must(t, err)
	t.Cleanup(func() { _ = s.Shutdown() }) // a test may have done so
	return s
}

// ledger counts what was done, and what was skipped.
type ledger struct {
	mu      sync.Mutex // guards the fields below
	runs    map[string]int
	ran     int
	skipped []error
}

func (l *ledger) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[what]++
	l.ran++
}

func (l *ledger) skip(_ uuid.UUID, _ string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = append(l.skipped, err)
}

// all is how much was done and skipped.
func (l *ledger) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran + len(l.skipped)
}

// Two schedulers have the same jobs to do. Whether both begin together, or one is late by less than the splay, each is
// run once.
func TestTwoSchedulersRunEachJobOnce(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprintf("together=%v", together), func(t *testing.T) { t.Parallel(); runOnce(t, together) })
	}
}

func runOnce(t *testing.T, together bool) {
	t.Helper()
	const jobs = 20
	did := ledger{runs: map[string]int{}}
	var schedulers [2]gocron.Scheduler
	for i := range schedulers {
		locker := lockdcron.NewLocker(harness.Dial(t, addr), t.Name(), time.Hour)
		schedulers[i] = schedule(t, gocron.WithDistributedLocker(locker))
		for n := range jobs {
			name := fmt.Sprint("job ", n)
			run := func() {
				if held := locker.Held(name); held == nil || held.Err() != nil || held.Fence() == 0 {
					t.Errorf("%s does not have its lock", name)
				}
				did.note(name)
			}
			_, err := schedulers[i].NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(run),
				gocron.WithName(name), gocron.WithEventListeners(gocron.AfterLockError(did.skip)))
			harness.Must(t, err)
		}
	}
	schedulers[0].Start()
	if !together {
		harness.Until(t, "the first one had all jobs", func() bool { return did.all() == jobs })
		harness.Must(t, schedulers[0].StopJobs()) // they have released what they had
	}
	schedulers[1].Start()
	harness.Until(t, "both had all jobs", func() bool { return did.all() == 2*jobs })
	for _, err := range did.skipped {
		if !errors.Is(err, client.ErrHeld) {
			t.Errorf("skipped for %v", err)
		}
	}
	for name, n := range did.runs {
		if n != 1 {
			t.Errorf("%s was run %d times", name, n)
		}
	}
}

// A lock is released when its job is done, or its splay is over, whichever is later; whatever became of the context.
func TestALockStaysTakenForItsSplay(t *testing.T) {
	t.Parallel()
	c, other := harness.Dial(t, addr), harness.Dial(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, splay := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
		locker, name := lockdcron.NewLocker(c, t.Name(), splay), fmt.Sprint(splay)
		begun := time.Now()
		held, err := locker.Lock(t.Context(), name)
		harness.Must(t, err)
		if _, err := locker.Lock(t.Context(), name); !errors.Is(err, client.ErrHeld) {
			t.Errorf("while the job runs: %v", err)
		}
		harness.Must(t, held.Unlock(ctx))
		if locker.Held(name) != nil {
			t.Error("the run is not over")
		}
		next, err := other.Lock(t.Context(), t.Name()+name, client.Wait(harness.Patience))
		harness.Must(t, err)
		if after := time.Since(begun); after < splay*95/100 {
			t.Errorf("free after %v, want %v", after, splay)
		}
		harness.Must(t, next.Unlock(t.Context()))
	}
}

// Of two schedulers the leader alone runs the jobs, and the other one goes on when that resigns.
func TestTheLeaderAloneRunsJobs(t *testing.T) {
	t.Parallel()
	var runs [2]atomic.Int64
	var electors [2]*lockdcron.Elector
	var schedulers [2]gocron.Scheduler
	for i := range 2 {
		e := election.New(harness.Dial(t, addr), t.Name())
		electors[i] = lockdcron.NewElector(e, election.Candidate{ID: fmt.Sprint(i)})
		t.Cleanup(func() { _ = electors[i].Close(context.Background()) }) // the client is closed first
		schedulers[i] = schedule(t, gocron.WithDistributedElector(electors[i]))
		_, err := schedulers[i].NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(func() { runs[i].Add(1) }))
		harness.Must(t, err)
		if i == 0 {
			harness.Until(t, "the first one leads", func() bool { return electors[0].IsLeader(t.Context()) == nil })
		}
		schedulers[i].Start()
	}
	harness.Until(t, "the leader runs jobs", func() bool { return runs[0].Load() > 10 })
	if err := electors[1].IsLeader(t.Context()); !errors.Is(err, lockdcron.ErrNotLeader) || runs[1].Load() != 0 {
		t.Errorf("the other one: %v, and %d runs", err, runs[1].Load())
	}
	first := electors[0].Term().Fence()
	harness.Must(t, schedulers[0].Shutdown())
	harness.Must(t, electors[0].Close(t.Context()))
	done := runs[0].Load()
	harness.Until(t, "the other one runs jobs", func() bool { return runs[1].Load() > 10 })
	if electors[1].Term().Fence() <= first || runs[0].Load() != done {
		t.Error("the first one ran on, or the fence did not rise")
	}
	harness.Must(t, electors[0].Close(t.Context()))
}

// While lockd is away no run begins, and then it goes on.
func TestNoRunBeginsWithoutLockd(t *testing.T) {
	t.Parallel()
	d := harness.StartLockdWith(t)
	c := harness.Dial(t, d.Addr, client.WithSessionTTL(4*time.Second), client.WithAnswerTimeout(time.Second))
	jobs := harness.Dial(t, d.Addr, client.WithAnswerTimeout(5*time.Second))
	locker := lockdcron.NewLocker(jobs, "", time.Second)
	elector := lockdcron.NewElector(election.New(c, "leader"), election.Candidate{})
	t.Cleanup(func() { _ = elector.Close(context.Background()) }) // the client is closed first
	harness.Until(t, "it leads", func() bool { return elector.IsLeader(t.Context()) == nil })
	d.Kill()
	if _, err := locker.Lock(t.Context(), "job"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without lockd: %v", err)
	}
	harness.Until(t, "it does not lead", func() bool { return errors.Is(elector.IsLeader(t.Context()), client.ErrLost) })
	d.Restart()
	harness.Until(t, "it leads again", func() bool { return elector.IsLeader(t.Context()) == nil })
	harness.Until(t, "runs begin again", func() bool {
		held, err := locker.Lock(t.Context(), "job")
		if err == nil {
			harness.Must(t, held.Unlock(t.Context()))
		}
		return err == nil
	})
}
