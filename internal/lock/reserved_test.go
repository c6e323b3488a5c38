package lock

import (
	"strings"
	"testing"
)

// Reserved looks at the list only if a key begins as all of it does.
func TestAllReservedKeysBeginAlike(t *testing.T) {
	for _, begin := range reservedBegins {
		if !Reserved(begin+"x") || !strings.HasPrefix(begin, "redisson_") && !strings.HasPrefix(begin, "lockd") {
			t.Errorf("%q is not found", begin)
		}
	}
}
