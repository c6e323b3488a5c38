package redistest

import (
	"os"
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
	s.Restart()
	if got, err := s.Client().Get(t.Context(), "k").Result(); got != "v" {
		t.Errorf("after Restart got %q, %v, want the value", got, err)
	}
	s.RestartEmpty()
	if n, err := s.Client().Exists(t.Context(), "k").Result(); err != nil || n != 0 {
		t.Errorf("after RestartEmpty got %d keys, %v, want none", n, err)
	}
}
