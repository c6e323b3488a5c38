package redistest

import (
	"testing"
	"time"
)

// recorder takes what a test would complain of.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestAScriptThatKeepsRedisBusyFailsTheTest(t *testing.T) {
	s := Start(t)
	r := &recorder{TB: t}
	s.t = r
	c := s.Client().WithTimeout(time.Minute) // a script may take long on a busy machine
	run := func(rounds int) {
		t.Helper()
		sha, err := c.ScriptLoad(t.Context(), "for i = 1, tonumber(ARGV[1]) do redis.call('PING') end return 1").Result()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.EvalSha(t.Context(), sha, nil, rounds).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run(10)
	if s.checkScripts(); r.failed {
		t.Error("a short script is complained of")
	}
	run(3_000_000) // seconds, so that no wait for a processor hides it
	if s.checkScripts(); !r.failed {
		t.Error("a long script is not complained of")
	}
}
