package script

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

// Calls without a session cost more than what they cost Redis, each tenant's by itself; a session's do not.
func TestUnaryCallsOfAnyTenantCostTheSame(t *testing.T) {
	one, other := CostFactor(lock.Tenant("10.0.0.1").Unary()), CostFactor(lock.Tenant("").Unary())
	if one != other || one != CostFactor(lock.UnarySuffix) {
		t.Errorf("got %d and %d, want %d", one, other, CostFactor(lock.UnarySuffix))
	}
	if w := CostFactor("c0ffee00-0000-4000-8000-000000000000"); w != 1 {
		t.Errorf("a session's have %d", w)
	}
}
