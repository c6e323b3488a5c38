package redistest

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	MostlyWaits()
	os.Exit(m.Run())
}

func TestServerAnswersAndCountsScripts(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client()
	before := s.ScriptCalls()
	if err := c.Eval(t.Context(), "return 1", nil).Err(); err != nil {
		t.Fatal(err)
	}
	if got := s.ScriptCalls() - before; got != 1 {
		t.Errorf("got %d script calls, want 1", got)
	}
}

func TestRestartKeepsSavedDataAndRestartEmptyDoesNot(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for range 2 * c.Options().PoolSize { // its pool gives up
		if err := c.Ping(t.Context()).Err(); err == nil {
			t.Fatal("a stopped server answered")
		}
	}
	s.Restart()
	if got, err := s.Client().Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("after Restart got %q, %v, want the value", got, err)
	}
	s.RestartEmpty()
	if n, err := s.Client().Exists(t.Context(), "k").Result(); err != nil || n != 0 {
		t.Errorf("after RestartEmpty got %d keys, %v, want none", n, err)
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
