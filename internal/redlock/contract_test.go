package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/tier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prompt is a member that has executed a call when it has been started, so that calls keep their order.
type prompt struct{ *memstore.Store }

func (p prompt) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	g, err := lock.Await(context.Background(), p.Store.StartAcquire, c)
	go done(g, err)
}

func (p prompt) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	res, err := lock.Await(context.Background(), p.Store.StartRelease, r)
	go done(res, err)
}

func (p prompt) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	left, err := lock.Await(context.Background(), p.Store.StartExtend, r)
	go done(left, err)
}

// settled is a Store that returns when all members have answered: what each is asked in a goroutine of its own, and
// acquisitions and releases, for whose answers the next call about a hold waits.
type settled struct {
	*Store
	one *sync.Mutex // has one of all that wait look at a time
}

func (s settled) settle() {
	s.one.Lock()
	defer s.one.Unlock()
	for s.underWay.Load() > 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

func (s settled) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	s.Store.StartAcquire(c, func(g lock.Grant, err error) { go func() { s.settle(); done(g, err) }() })
}

func (s settled) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	s.Store.StartRelease(r, func(res lock.Returned, err error) { go func() { s.settle(); done(res, err) }() })
}

func (s settled) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	s.Store.StartExtend(r, func(left time.Duration, err error) { go func() { s.settle(); done(left, err) }() })
}

func (s settled) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	defer s.settle()
	return s.Store.AcquireAll(ctx, cs)
}

func (s settled) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	defer s.settle()
	s.Store.Renew(ctx, rs, done)
}

func (s settled) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	defer s.settle()
	return s.Store.Raise(ctx, c)
}

func (s settled) Leave(ctx context.Context, name string, kind lock.Kind, os []lock.Owner) error {
	defer s.settle()
	return s.Store.Leave(ctx, name, kind, os)
}

func (s settled) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	defer s.settle()
	return s.Store.TakeSession(ctx, r, ttl)
}

func (s settled) EndSession(ctx context.Context, id string, epoch uint64) error {
	defer s.settle()
	return s.Store.EndSession(ctx, id, epoch)
}

func (s settled) ForceEndSession(ctx context.Context, id string) (bool, error) {
	defer s.settle()
	return s.Store.ForceEndSession(ctx, id)
}

// rig is a majority of so many stores in memory.
func rig(t testing.TB, members int) storetest.Rig {
	var stores []*memstore.Store
	var all []lock.Store
	for range members {
		m := memstore.New()
		stores = append(stores, m)
		all = append(all, prompt{m})
	}
	// On a busy machine a member may tell of a release late, and then it is heard twice. All members answer some time.
	cfg := Config{fewPause: 50 * fewPause, NodeTimeout: 2 * time.Minute, CallTimeout: 2 * time.Minute}
	s, err := New(cfg, all, zap.NewNop(), nil)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	one := settled{s, new(sync.Mutex)}
	each := func(do func(*memstore.Store)) error {
		one.settle() // what a test does to the members comes after all that was asked before
		for _, m := range stores {
			do(m)
		}
		return nil
	}
	refuses := []lock.Kind{lock.Fair, lock.Semaphore}
	return storetest.Rig{Store: one, AnyFence: true, Refuses: refuses, Hooks: storetest.Hooks{
		Expire:     func(name string) error { return each(func(m *memstore.Store) { m.Expire(name) }) },
		ExpireHold: func(name string, o lock.Owner) error { return each(func(m *memstore.Store) { m.ExpireHold(name, o) }) },
		ExpirePlace: func(name string, o lock.Owner) error {
			return each(func(m *memstore.Store) { m.ExpirePlace(name, o) })
		},
		Lose:   func() error { return each((*memstore.Store).Lose) },
		Occupy: func(name string) error { return each(func(m *memstore.Store) { m.Occupy(name) }) },
	}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Rig { return rig(t, 3) })
}

func TestContractWithOneMember(t *testing.T) {
	tier.Long(t)
	storetest.Run(t, func(t *testing.T) storetest.Rig { return rig(t, 1) })
}

func TestOddConfigurationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     Config
		members []lock.Store
	}{
		"no members":    {},
		"too many":      {members: make([]lock.Store, maxMembers+1)},
		"missing names": {cfg: Config{Names: []string{"a"}}, members: make([]lock.Store, 2)},
	} {
		if _, err := New(c.cfg, c.members, zap.NewNop(), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if !errors.Is(lock.ErrNoQuorum, lock.ErrUnavailable) {
		t.Error("no quorum is not unavailable")
	}
}

// A majority of stores answers as one store does.
func TestAMajorityAgreesWithOneStore(t *testing.T) {
	t.Parallel()
	one := memstore.New()
	memory := storetest.Rig{Store: one, Hooks: storetest.HooksOf(one)}
	seed, steps := rand.Uint64(), tier.Pick(1000, 6000)
	if err := storetest.Compare(t.Context(), memory, rig(t, 3), seed, steps); err != nil {
		t.Error(err)
	}
}
