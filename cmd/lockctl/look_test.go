package main

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

var leaseKeys = []string{"name", "lease_id", "fence", "valid_for_ms"}

func TestLeaseOfAShell(t *testing.T) {
	t.Parallel()
	const name = "lease/of a shell"
	r := call(t, "acquire", name, "--lease", "1m", "--annotation", "nightly")
	got := parse(t, r.stdout, leaseKeys...)
	id := got["lease_id"].(string)
	if r.code != 0 || r.stderr != "" || got["name"] != name || len(id) < 22 || got["fence"].(float64) < 1 ||
		got["valid_for_ms"].(float64) < 50_000 || got["valid_for_ms"].(float64) > 60_000 {
		t.Errorf("got %+v", r)
	}
	call(t, "acquire", name, "--lease", "1m").want(t, exitNotObtained, "", " acquire (nightly) from 127.0.0.1:")
	call(t, "acquire", name, "--lease", "1m", "--wait", "50ms").want(t, exitNotObtained, "", "WAIT_TIMEOUT: ")

	again := parse(t, call(t, "extend", name, id, "--lease", "2m").stdout, leaseKeys...)
	if again["fence"] != got["fence"] || again["valid_for_ms"].(float64) < 100_000 {
		t.Errorf("extended: %v", again)
	}
	wrong := strings.Repeat("x", 26)
	call(t, "extend", name, wrong, "--lease", "2m").want(t, exitFailed, "", "LOCK_NOT_HELD: ")
	call(t, "release", name, wrong).want(t, exitFailed, "", "LOCK_NOT_HELD: ")
	call(t, "release", name, id).want(t, 0, "", "")
	call(t, "release", name, id).want(t, exitFailed, "", "LOCK_NOT_HELD: ")
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	l := hold(t, "acquire-waits")
	p := start(t, "acquire", "acquire-waits", "--lease", "1m", "--wait", "1m")
	awaitWaiters(t, "acquire-waits", 1)
	harness.Must(t, l.Unlock(t.Context()))
	line, err := p.out.ReadString('\n')
	harness.Must(t, err)
	if v := parse(t, line, leaseKeys...); v["valid_for_ms"].(float64) < 50_000 {
		t.Errorf("got %v", v)
	}
	p.wait(0, "")
}

// awaitWaiters waits until somebody waits for a name.
func awaitWaiters(t *testing.T, name string, n float64) {
	t.Helper()
	for {
		r := call(t, "inspect", name, "-o", "json")
		if r.code != 0 {
			continue // nothing is known of it yet
		}
		if v := parse(t, r.stdout, lockKeys...); v["waiters"] == n {
			return
		}
	}
}

var lockKeys = []string{
	"name", "kind", "held", "holder", "client", "fence", "ttl_ms", "hold_count", "waiters", "annotation", "holders",
	"limit",
	"queued", "queue", "holds", "replicas", "replicas_silent", "store_error",
}

func TestInspect(t *testing.T) {
	t.Parallel()
	l := hold(t, "inspect-me", client.Annotation("for <people>"))
	r := call(t, "inspect", "inspect-me", "-o", "json")
	v := parse(t, r.stdout, lockKeys...)
	if v["name"] != "inspect-me" || v["kind"] != "exclusive" || v["held"] != true || v["client"] != "the test" ||
		v["fence"] != float64(l.Fence()) || v["annotation"] != "for <people>" || v["hold_count"] != 1.0 ||
		v["ttl_ms"].(float64) < 10_000 || v["holder"] == "" {
		t.Errorf("got %s", r.stdout)
	}
	h := v["holds"].([]any)[0].(map[string]any)
	if h["origin"] != "session" || h["client"] != "the test" || h["annotation"] != "for <people>" || h["replica"] == "" ||
		h["address"] == "" || h["age_ms"] == nil || h["auto"] != true || h["session"] == "" || v["replicas_silent"] != 0.0 {
		t.Errorf("got %s", r.stdout)
	}
	text := call(t, "inspect", "inspect-me").stdout
	if !strings.Contains(text, "\n\nHELD BY ") || !strings.Contains(text, "\nthe test ") {
		t.Errorf("got %s", text)
	}
	harness.Must(t, l.Unlock(t.Context()))
	free := parse(t, call(t, "inspect", "inspect-me", "-o", "json").stdout, lockKeys...)
	if free["held"] != false || free["ttl_ms"] != nil || free["holder"] != "" {
		t.Errorf("got %v", free)
	}
	r = call(t, "inspect", "nobody")
	r.want(t, exitFailed, "", `UNKNOWN_NAME: inspect "nobody": nothing is known of this name`)
	if strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %q, want one line", r.stderr)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"list:b", "list:a", "other"} {
		hold(t, name)
	}
	r := call(t, "ls", "--prefix", "list:", "-o", "json")
	var locks []lockView
	harness.Must(t, json.Unmarshal([]byte(r.stdout), &locks))
	if len(locks) != 2 || locks[0].Name != "list:a" || locks[1].Name != "list:b" || !locks[0].Held {
		t.Errorf("got %s", r.stdout)
	}
	lines := strings.Split(call(t, "ls", "--prefix", "list:").stdout, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "NAME ") || !strings.HasPrefix(lines[1], "list:a ") {
		t.Errorf("got %q", lines)
	}
	call(t, "ls", "--prefix", "nothing:", "-o", "json").want(t, 0, "[]\n", "")
}

func TestWatch(t *testing.T) {
	t.Parallel()
	p := start(t, "watch", "watch-me", "-o", "json")
	lines := make(chan string)
	go func() {
		line, _ := p.out.ReadString('\n')
		lines <- line
	}()
	var line string
	for line == "" { // until it watches
		harness.Must(t, hold(t, "watch-me").Unlock(t.Context()))
		select {
		case line = <-lines:
		default:
		}
	}
	v := parse(t, line, "event", "name", "cause", "fence", "merged", "gap", "time")
	if v["event"] != "unlocked" || v["name"] != "watch-me" || v["gap"] != false || v["cause"] != "RELEASED" ||
		v["fence"] == 0 {
		t.Errorf("got %s", line)
	}
	p.signal(syscall.SIGINT)
	if code := codeOf(t, p.cmd.Wait()); code != exitSignal+int(syscall.SIGINT) {
		t.Errorf("code %d after SIGINT", code)
	}
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	l := hold(t, "unlock-me")
	call(t, "unlock", "unlock-me", "--force", "--reason", " ").want(t, exitUsage, "", "--reason")
	if l.Err() != nil {
		t.Error("the lock was taken without --force and --reason")
	}
	call(t, "unlock", "unlock-me", "--force", "--reason", "stuck").want(t, 0, "unlocked unlock-me\n", "")
	<-l.Lost()
	lost, ok := errors.AsType[*client.LostError](l.Err())
	if !ok || lost.By != person() || !strings.Contains(lost.By, "@") || lost.Why != "stuck" {
		t.Errorf("the holder is told %v", l.Err())
	}
	call(t, "unlock", "unlock-me", "--force", "--reason", "stuck").want(t, exitFailed, "", "LOCK_NOT_HELD: ")
	hold(t, "unlock-me")
	call(t, "unlock", "unlock-me", "--force", "--reason", "stuck", "-o", "json").want(t, 0,
		`{"name":"unlock-me","released":true}`+"\n", "")
}

func TestBench(t *testing.T) {
	t.Parallel()
	var r result
	var v map[string]any
	harness.Until(t, "it gets somewhere", func() bool {
		r = call(t, "bench", "--callers", "8", "--duration", "200ms", "--names", "1", "--hold", "1ms", "-o", "json")
		v = parse(t, r.stdout, "callers", "names", "hold_ms", "duration_ms", "pairs", "pairs_per_second",
			"lock_p50_ms", "lock_p99_ms", "lock_p999_ms")
		return v["pairs"].(float64) >= 10
	})
	if r.code != 0 || v["pairs"].(float64) > 250 || v["names"] != 1.0 ||
		v["lock_p50_ms"].(float64) < 1 || v["lock_p999_ms"].(float64) < v["lock_p50_ms"].(float64) {
		t.Errorf("got %+v", r)
	}
	if text := call(t, "bench", "--callers", "2", "--duration", "50ms", "--names", "1").stdout; !strings.Contains(text,
		"2 callers on 1 name, ") {
		t.Errorf("got %q", text)
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	l := hold(t, "end-me")
	var v struct{ Holds []struct{ Session string } }
	harness.Must(t, json.Unmarshal([]byte(call(t, "inspect", "end-me", "-o", "json").stdout), &v))
	id := v.Holds[0].Session
	call(t, "end", id, "--force", "--reason", " ").want(t, exitUsage, "", "--reason")
	if l.Err() != nil {
		t.Error("the session was ended without --force and --reason")
	}
	call(t, "end", id, "--force", "--reason", "stuck").want(t, 0, "ended "+id+"\n", "")
	<-l.Lost()
	lost, ok := errors.AsType[*client.LostError](l.Err())
	if !ok || lost.Reason != client.LostSession || !errors.Is(lost.Err, client.ErrSessionExpired) ||
		!strings.Contains(lost.Err.Error(), person()+": stuck") {
		t.Errorf("the holder is told %v", l.Err())
	}
	call(t, "end", id, "--force", "--reason", "stuck").want(t, exitFailed, "", "SESSION_EXPIRED")
}
