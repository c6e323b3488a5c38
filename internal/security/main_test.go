package security

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also tells that nothing goes on after a Guard was closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
