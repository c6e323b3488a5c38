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
	return storetest.Rig{Store: as, Hooks: storetest.HooksOf(s)}
}

func TestTwoEqualStoresDoNotDiffer(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	steps := tier.Pick(2000, 20_000)
	if err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, b), rand.Uint64(), steps); err != nil {
		t.Error(err)
	}
}
