package redlock

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const unary = lock.Owner("00000000-0000-0000-0000-000000000000" + lock.UnarySuffix)

// What is known of releases whose outcome is unknown is looked at for a minute, and no longer: other calls share it.
func TestWhatIsKnownOfAReleaseIsForgottenInTime(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		for _, n := range w.nodes[:3] {
			n.choose(once("release", silent))
		}
		if _, err := w.Store.Release(w.Context(), returnOf("n", "o", f)); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if time.Sleep(proofTime - time.Second); w.Store.proofs.none() {
			t.Error("it is forgotten too early")
		}
		if time.Sleep(2 * time.Second); !w.Store.proofs.none() {
			t.Error("it is not forgotten")
		}
	})
}
