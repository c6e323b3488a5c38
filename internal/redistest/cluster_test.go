package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestAClusterFailsOver has a key survive a fail-over in good order, a killed master, and the return of that master.
func TestAClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	slot := c.Slot("k")
	first := c.MasterOf(slot)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want *Server) {
		t.Helper()
		if got := c.MasterOf(slot); got != want {
			t.Errorf("%s %s is the master, want %s", when, got.Addr, want.Addr)
		}
		if got, err := want.Client().Get(t.Context(), "k").Result(); got != "v" {
			t.Errorf("%s the key has %q, %v", when, got, err)
		}
	}
	check("at first", c.Nodes[1]) // k is in the second third of the slots

	second := c.ReplicaOf(first)
	c.FailOver(second)
	check("after the fail-over", second)

	c.AwaitAgreement()
	second.Kill()
	c.AwaitMaster(first)
	check("after the kill", first)

	second.Restart()
	c.AwaitAgreement()
	check("after the return", first)
	if got := c.ReplicaOf(first); got != second {
		t.Errorf("%s is the replica, want %s", got.Addr, second.Addr)
	}
}

// TestASlotMovesStepByStep looks at the answers of both masters at each step.
func TestASlotMovesStepByStep(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	slot := c.Slot("{k}")
	from := c.MasterOf(slot)
	to := c.Nodes[0]
	if from == to {
		t.Fatal("choose another key")
	}
	for i := range 3 {
		if err := from.Client().Set(t.Context(), fmt.Sprintf("{k}%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(s *Server, key, want string) {
		t.Helper()
		got, err := s.Client().Get(t.Context(), key).Result()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	moved := func(s *Server) string { return fmt.Sprintf("MOVED %d %s", slot, s.Addr) }

	m := c.Migrate(slot, to)
	check(from, "{k}0", "0")
	check(from, "{k}none", fmt.Sprintf("ASK %d %s", slot, to.Addr))
	check(to, "{k}0", moved(from))

	m.MoveKeys("{k}0")
	check(from, "{k}0", "ASK")
	if got := m.Move(1); got != 1 {
		t.Errorf("%d keys moved, want 1", got)
	}

	m.Finish()
	check(from, "{k}0", moved(to))
	check(c.Nodes[2], "{k}0", moved(to))
	for i := range 3 {
		check(to, fmt.Sprintf("{k}%d", i), fmt.Sprint(i))
	}
}

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
