package storetest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/tier"
)

func rigOf(s *memstore.Store, as lock.Store) storetest.Rig {
	return storetest.Rig{Store: as, Hooks: storetest.Hooks{
		Expire:      func(name string) error { s.Expire(name); return nil },
		ExpireHold:  func(name string, o lock.Owner) error { s.ExpireHold(name, o); return nil },
		ExpirePlace: func(name string, o lock.Owner) error { s.ExpirePlace(name, o); return nil },
		Lose:        func() error { s.Lose(); return nil },
		Occupy:      func(name string) error { s.Occupy(name); return nil },
	}}
}

func TestTwoEqualStoresDoNotDiffer(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	steps := tier.Pick(2000, 20_000)
	if err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, b), rand.Uint64(), steps); err != nil {
		t.Error(err)
	}
}
