package script

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

// Calls without a session weigh more than what they cost Redis, each tenant's by itself; a session's do not.
func TestUnaryCallsOfAnyTenantWeighTheSame(t *testing.T) {
	one, other := Weight(lock.Tenant("10.0.0.1").Unary()), Weight(lock.Tenant("").Unary())
	if one != other || one != Weight(lock.UnarySuffix) {
		t.Errorf("got %d and %d, want %d", one, other, Weight(lock.UnarySuffix))
	}
	if w := Weight("c0ffee00-0000-4000-8000-000000000000"); w != 1 {
		t.Errorf("a session's weigh %d", w)
	}
}
