package redisstore

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redistest"
)

// withReplica are a server and its replica, and how grants wait for it.
func withReplica(t *testing.T) (master, replica *redistest.Server, cfg Config) {
	t.Helper()
	master = redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr)
	replica = redistest.Start(t, "--replicaof", host, port)
	// A third of the time is for the replica, which may stand still for a while, and so may the master after that.
	cfg = Config{Addr: master.Addr, OpTimeout: 7 * time.Second, Replicas: 1}
	s := open(t, cfg)
	until(t, "the replica acknowledges",
		func() error { return attempt(t, s, claim("first", "o")) })
	return master, replica, cfg
}

func TestOneQuestionCoversABatchOfGrantsAndRenewalsAskNone(t *testing.T) {
	t.Parallel()
	master, _, cfg := withReplica(t)
	g := new(gate)
	cfg.Hook = g
	s := open(t, cfg)
	const many = 50
	granted := make(chan lock.Grant, many)
	before := master.Calls("wait")
	err := g.together(s, storetest.Deliver, func() {
		for i := range many {
			s.StartAcquire(claim(string(rune('A'+i)), "o"), func(g lock.Grant, err error) {
				if err != nil {
					t.Error(err)
				}
				granted <- g
			})
		}
	})
	must(t, err)
	var f lock.Fence
	for range many {
		f = (<-granted).Fence
	}
	if n := master.Calls("wait") - before; n < 1 || n > 2 { // what came first may go alone
		t.Errorf("asked %d times for %d grants, want once for each batch", n, many)
	}
	before = master.Calls("wait")
	_ = renewOne(t, s, "A", "o", f)
	if _, err := s.Look(t.Context(), "A"); err != nil {
		t.Error(err)
	}
	release(t, s, releaseOf("A", "o", 0))
	if n := master.Calls("wait") - before; n != 0 {
		t.Errorf("asked %d times for what grants nothing", n)
	}
}

// A grant that too few replicas have is released and refused, whatever it is.
func TestAGrantThatIsNotReplicatedIsNone(t *testing.T) {
	t.Parallel()
	for name, few := range map[string]int{"alone": maxTogether + 1, "together": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, replica, cfg := withReplica(t)
			cfg.fewTogether = few
			refuseWithout(t, replica, open(t, cfg))
		})
	}
}

// refuseWithout asks for all there is while the replica does not answer.
func refuseWithout(t *testing.T, replica *redistest.Server, raw *Store) {
	s := settled(t, raw)
	first := acquire(t, raw, claim("held", "o"))
	handed := make(map[lock.Kind]lock.Fence)
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Write} {
		handed[k] = acquire(t, raw, kindClaim(k, "over "+k.String(), "o")).Fence
	}
	replica.Pause()
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, lock.ErrNotReplicated) ||
			errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want that it is not replicated", what, err)
		}
	}
	free := func(name string) {
		t.Helper()
		wantHeld(t, raw, name, false)
	}
	told := make(map[string]chan error)
	for _, k := range kinds {
		name := k.String()
		told[name] = make(chan error, 1)
		s.StartAcquire(usual(k, name, "o"), func(_ lock.Grant, err error) { told[name] <- err })
	}
	_, err := s.AcquireAll(t.Context(), []lock.Claim{claim("one", "o"), kindClaim(lock.Write, "two", "o")})
	refused("several", err)
	free("one")
	free("two")
	for name, err := range told {
		refused(name, <-err)
		free(name)
	}
	wantErr(t, attempt(t, s, claim("held", "p")), lock.ErrHeld) // which is true, replicated or not
	var overs sync.WaitGroup
	overs.Add(len(handed))
	for k, f := range handed {
		r := handingOver(kindReturn(k, "over "+k.String(), "o", f), "successor")
		s.StartRelease(r, func(res lock.Returned, err error) {
			if err != nil || res.HandedOver != 0 {
				t.Errorf("%v handed over: got %+v, %v, want the name freed", k, res, err)
			}
			overs.Done()
		})
	}
	overs.Wait()
	for k := range handed {
		free("over " + k.String())
	}
	wantErr(t, renewOne(t, raw, "held", "o", first.Fence), nil)

	replica.Resume()
	until(t, "acquire", func() error { return attempt(t, s, claim("after", "o")) })
}
