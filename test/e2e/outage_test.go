package e2e

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// outages are the ways in which Redis is away: it does not answer, or it is not there.
var outages = map[string]struct{ begin, end func(*redistest.Server) }{
	"paused":  {(*redistest.Server).Pause, (*redistest.Server).Resume},
	"stopped": {(*redistest.Server).Stop, (*redistest.Server).Restart},
}

// statuses are what a client was told, but for silences: with many tests side by side the machine stands still at
// times.
type statuses struct {
	mu  sync.Mutex // guards the field below
	all []client.State
}

func (s *statuses) add(st client.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := len(s.all) > 0 && s.all[len(s.all)-1] == st.State
	if !again && !errors.Is(st.Err, client.ErrSilent) {
		s.all = append(s.all, st.State)
	}
}

func (s *statuses) list() []client.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func TestNothingIsLostWhenRedisIsAwayForFiveSeconds(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rs := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			d := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL=15s")
			var seen statuses
			c, other := d.Dial(t, client.WithOnStatus(seen.add)), d.Dial(t)
			var locks []*client.Lock
			for i := range 20 {
				locks = append(locks, mustLock(t, c, fmt.Sprint("job ", i)))
			}
			granted := make(chan *client.Lock, 1)
			go func() { granted <- mustLock(t, other, "job 0") }()
			harness.Until(t, "somebody waits", func() bool { return d.Metric("lockd_waiters") == 1 })

			outage.begin(rs)
			time.Sleep(5 * time.Second)
			if got, want := seen.list(), []client.State{client.Connected, client.AtRisk}; !slices.Equal(got, want) {
				t.Errorf("during the outage: told %v, want %v", got, want)
			}
			outage.end(rs)
			back := time.Now()
			harness.Until(t, "safe again", func() bool { return len(seen.list()) > 2 })
			t.Logf("told Safe %v after Redis was back", time.Since(back))
			if got, want := seen.list(), []client.State{client.Connected, client.AtRisk, client.Safe}; !slices.Equal(got, want) {
				t.Errorf("after the outage: told %v, want %v", got, want)
			}
			rc := rs.Client()
			for _, l := range locks {
				if s := look(t, rc, l.Name()); l.Err() != nil || len(s.fields) != 1 || s.pttl <= 0 {
					t.Errorf("%s: %v, in Redis %v with PTTL %v", l.Name(), l.Err(), s.fields, s.pttl)
				}
			}
			for _, l := range locks {
				mustUnlock(t, l)
			}
			if l := harness.Soon(t, "the waiter is granted", granted); l.Fence() <= locks[0].Fence() {
				t.Errorf("fence %d after %d", l.Fence(), locks[0].Fence())
			}
		})
	}
}

func TestLostAtTheEndOfItsValidityWhenRedisStaysAway(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rs := redistest.Start(t)
			// Noticing takes a probe's interval of a second and this time; it must be less than what is left of a
			// lease.
			d := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL="+shortly.String(), "LOCKD_REDIS_OP_TIMEOUT=500ms")
			conn := d.Connect(t)
			sdk := mustLock(t, d.Dial(t), "of the SDK")
			holder := open(t, conn, &lockdv1.Open{})
			hold := holder.take(1, "job")
			defer holder.beat(shortly / 3)()
			waiter := open(t, conn, &lockdv1.Open{})
			waiter.send(acquire(1, &lockdv1.Acquire{Name: "job"}))
			if waiter.recv().GetQueued() == nil {
				t.Fatal("want Queued")
			}
			defer waiter.beat(shortly / 3)()
			asker := open(t, conn, &lockdv1.Open{SessionTtl: seconds(60)})
			time.Sleep(shortly) // so that they are renewed

			outage.begin(rs)
			var wg sync.WaitGroup
			wg.Go(func() {
				<-sdk.Lost()
				if early := time.Until(sdk.Deadline()); early > 0 {
					t.Errorf("the SDK told the loss %v before the end of the validity", early)
				}
			})
			wg.Go(func() { readsLoss(t, holder) })
			wg.Go(func() { asksInVain(t, asker) })
			wg.Wait()

			outage.end(rs)
			back := time.Now()
			m := waiter.answer(1)
			t.Logf("the waiter was granted %v after Redis was back", time.Since(back))
			if got := m.GetGranted().GetHolds(); len(got) != 1 || got[0].GetFence() <= hold.GetFence() {
				t.Errorf("the waiter got %v, want a fence above %d", m, hold.GetFence())
			}
			// All works again, and what was asked for in vain is held by nobody.
			c := d.Dial(t)
			mustUnlock(t, mustLock(t, c, "of the SDK", client.Wait(shortly+time.Second)))
			for i := range 100 {
				name := fmt.Sprint("in vain ", i)
				if l, err := c.Lock(t.Context(), name, client.Wait(shortly+time.Second)); err != nil {
					t.Error(err)
				} else {
					mustUnlock(t, l)
				}
			}
		})
	}
}

// readsLoss reads a stream until its lock is lost.
func readsLoss(t *testing.T, c *stream) {
	atRisk := false
	for {
		m, err := c.Recv()
		if err != nil {
			t.Errorf("the stream ended: %v", err)
			return
		}
		switch {
		case m.GetAtRisk() != nil:
			atRisk = true
		case m.GetLost() != nil:
			if !atRisk || m.GetLost().GetReason() != lockdv1.Lost_REASON_EXPIRED {
				t.Errorf("told at risk before: %v; lost: %v", atRisk, m.GetLost())
			}
			return
		}
	}
}

// asksInVain tries locks while Redis is away, for longer than a TTL. Each is answered by the truth.
func asksInVain(t *testing.T, c *stream) {
	end := time.Now().Add(shortly + time.Second)
	for id := uint64(2); time.Now().Before(end); id++ {
		c.send(acquire(id, &lockdv1.Acquire{Name: fmt.Sprint("in vain ", id), Wait: seconds(0)}))
		m := c.answer(id)
		failure := m.GetResult().GetFailure()
		reason := failure.GetReason()
		if codes.Code(failure.GetCode()) != codes.Unavailable ||
			reason != "BACKEND_UNAVAILABLE" && reason != "OUTCOME_UNKNOWN" {
			t.Errorf("got %v, want that the store is away", m)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
