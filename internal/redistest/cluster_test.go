package redistest

import (
	"strings"
	"testing"
)

// TestAFileOfNodesThatCannotBeReadBack has the lines of a Valkey 8.1 that was killed too early.
func TestAFileOfNodesThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	const settled = `7deaa6 127.0.0.1:1@2,,tls-port=0,shard-id=7358fa master - 0 1 1 connected 0-5460
de4413 127.0.0.1:3@4,,tls-port=0,shard-id=7358fa slave 7deaa6 0 1 1 connected
vars currentEpoch 7 lastVoteEpoch 0
`
	for _, row := range []struct {
		what, file string
		readable   bool
	}{
		{"settled", settled, true},
		{"too early", strings.Replace(settled, "7358fa slave", "440f6b slave", 1), false},
		{"before 7.2", strings.NewReplacer(",,tls-port=0,shard-id=7358fa", "").Replace(settled), true},
	} {
		if err := oneShardEach(row.file); (err == nil) != row.readable {
			t.Errorf("%s: got %v", row.what, err)
		}
	}
}
