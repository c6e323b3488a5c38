package memstore_test

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Rig {
		s := memstore.New()
		return storetest.Rig{Store: s, Hooks: storetest.HooksOf(s)}
	})
}
