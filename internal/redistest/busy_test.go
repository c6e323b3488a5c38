package redistest

import (
	"sync"
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
	sha, err := c.ScriptLoad(t.Context(), "for i = 1, tonumber(ARGV[1]) do redis.call('PING') end return 1").Result()
	if err != nil {
		t.Fatal(err)
	}
	run := func(rounds int) {
		if err := c.EvalSha(t.Context(), sha, nil, rounds).Err(); err != nil {
			t.Error(err)
		}
	}
	run(10)
	if s.checkScripts(); r.failed {
		t.Error("a short script is complained of")
	}
	stop := make(chan struct{})
	var short sync.WaitGroup
	short.Go(func() { // so that one of them is paused
		for {
			select {
			case <-stop:
				return
			default:
				run(1000)
			}
		}
	})
	for range 10 {
		s.Pause()
		time.Sleep(100 * time.Millisecond)
		s.Resume()
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	short.Wait()
	if s.checkScripts(); r.failed {
		t.Error("a short script that was paused is complained of")
	}
	run(3_000_000) // seconds, so that no wait for a processor hides it
	if s.checkScripts(); !r.failed {
		t.Error("a long script is not complained of")
	}
}
