package memstore_test

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
)

// rig makes an empty Store with its hooks.
func rig() storetest.Rig {
	s := memstore.New()
	return storetest.Rig{Store: s, Hooks: storetest.Hooks{
		Expire:      func(name string) error { s.Expire(name); return nil },
		ExpireHold:  func(name string, o lock.Owner) error { s.ExpireHold(name, o); return nil },
		ExpirePlace: func(name string, o lock.Owner) error { s.ExpirePlace(name, o); return nil },
		Lose:        func() error { s.Lose(); return nil },
		Occupy:      func(name string) error { s.Occupy(name); return nil },
	}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Rig { return rig() })
}
