package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// TestParseItem fails if a word that is no kind becomes a part of the name, or the other way round.
func TestParseItem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]client.Item{ // none: it is refused
		"n":                {Name: "n", Kind: client.Fair},
		":n":               {Name: "n", Kind: client.Fair},
		":invoice:4711":    {Name: "invoice:4711", Kind: client.Fair},
		"::n":              {Name: ":n", Kind: client.Fair},
		":read:n":          {Name: "read:n", Kind: client.Fair},
		"read:n":           {Name: "n", Kind: client.Read},
		"exclusive:read:n": {Name: "read:n", Kind: client.Exclusive},
		"exclusive:a:b":    {Name: "a:b", Kind: client.Exclusive},
		"semaphore:":       {Kind: client.Semaphore},
		"mutex:n":          {},
		"invoice:4711":     {},
		"reader:n":         {},
		"Read:n":           {},
		" read:n":          {},
	} {
		got, err := parseItem(text, client.Fair)
		if got != want || (err == nil) != (want.Kind != 0) {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestExecOfEachKind(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		args  []string
		shown string // how inspect shows it
	}{
		{"exclusive", nil, "exclusive"},
		{"fair", []string{"--kind", "fair"}, "exclusive"}, // as long as nobody waits
		{"read", []string{"--kind", "read"}, "read"},
		{"write", []string{"--kind", "write"}, "write"},
		{"permits", []string{"--kind", "semaphore", "--limit", "3", "--permits", "2"}, "semaphore"},
		{"limit alone", []string{"--limit", "3"}, "semaphore"},
	} {
		name := "each kind " + row.name
		args := append(append([]string{"exec", name}, row.args...), "--", bin, "inspect", name, "-o", "json")
		r := call(t, args...)
		v := parse(t, r.stdout, lockKeys...)
		if r.code != 0 || r.stderr != "" || v["held"] != true || v["kind"] != row.shown {
			t.Errorf("%s: got %+v", row.name, r)
		}
		if row.name == "permits" && (v["holders"] != 2.0 || v["limit"] != 3.0) {
			t.Errorf("got %v", v)
		}
	}
}

func TestExecOfSeveral(t *testing.T) {
	t.Parallel()
	const script = `echo "$LOCKD_NAME"; test "$LOCKD_FENCE" = "$(echo "$LOCKD_FENCES" | head -1)" && echo "$LOCKD_NAMES" && echo "$LOCKD_FENCES" | wc -l; ` +
		`"$0" ls --prefix several: -o json`
	r := call(t, "exec", "several:b", "--also", ":several:a", "--also", "read:several:c", "--also", ":several:d", "--",
		"sh",
		"-c", script, bin)
	lines := strings.Split(r.stdout, "\n")
	if r.code != 0 || len(lines) != 8 {
		t.Fatalf("got %+v", r)
	}
	if got := strings.Join(lines[:6], " "); got != "several:b several:b several:a several:c several:d 4" {
		t.Errorf("got %q", got)
	}
	var locks []lockView
	harness.Must(t, json.Unmarshal([]byte(lines[6]), &locks))
	if len(locks) != 4 || locks[0].Kind != "exclusive" || locks[2].Kind != "read" || locks[2].Holders != 1 {
		t.Errorf("got %+v", locks)
	}
	call(t, "ls", "--prefix", "several:", "-o", "json").want(t, 0, "[]\n", "")
	hold(t, "several:d")
	call(t, "exec", "several:b", "--also", ":several:d", "--wait", "0", "--", "echo", "ran").want(t, exitNotObtained, "",
		"LOCK_BUSY: ")
	hold(t, "several:b") // was not kept by the one before
}

func TestExecTellsItsPosition(t *testing.T) {
	t.Parallel()
	l := hold(t, "position", client.As(client.Fair))
	r := start(t, "exec", "position", "--kind", "fair", "--", "echo", "ran")
	awaitWaiters(t, "position", 1)
	harness.Must(t, l.Unlock(t.Context()))
	r.wait(0, "ran\n")
	r.says("lockctl: QUEUED: 0 before this one\n")
}

func TestInspectShowsTheQueue(t *testing.T) {
	t.Parallel()
	hold(t, "queue", client.As(client.Fair))
	var waiting []*process
	for i := range 3 {
		waiting = append(waiting, start(t, "exec", "queue", "--kind", "fair", "--", "true"))
		awaitWaiters(t, "queue", float64(i+1))
	}
	v := parse(t, call(t, "inspect", "queue", "-o", "json").stdout, lockKeys...)
	queue := v["queue"].([]any)
	if v["kind"] != "fair" || v["queued"] != 3.0 || v["holders"] != 1.0 || len(queue) != 3 {
		t.Fatalf("got %v", v)
	}
	for i, q := range queue {
		w := q.(map[string]any)
		if w["position"] != float64(i) || w["kind"] != "fair" || w["owner"] == "" || w["session"] == "" ||
			!strings.HasSuffix(w["client"].(string), " exec true") || w["age_ms"] == nil {
			t.Errorf("got %v", w)
		}
	}
	text := call(t, "inspect", "queue").stdout
	if !strings.Contains(text, "\n\nPOSITION  KIND  ") || strings.Count(text, " exec true") != 3 {
		t.Errorf("got %s", text)
	}
	if v := parse(t, call(t, "inspect", "queue", "--queue", "2", "-o", "json").stdout,
		lockKeys...); len(v["queue"].([]any)) != 2 {
		t.Errorf("got %v", v)
	}
	for _, p := range waiting {
		p.signal(syscall.SIGINT)
		p.wait(exitSignal+int(syscall.SIGINT), "")
	}
}

func TestPermitsOfAShell(t *testing.T) {
	t.Parallel()
	const name = "permits of a shell"
	first := parse(t, call(t, "acquire", name, "--limit", "3", "--permits", "2", "--lease", "1m").stdout, leaseKeys...)
	call(t, "acquire", name, "--permits", "2", "--lease", "1m").want(t, exitNotObtained, "", "LOCK_BUSY: ")
	call(t, "acquire", name, "--limit", "4", "--lease", "1m").want(t, exitFailed, "", "LOCK_CONFIG_MISMATCH: ")
	one := parse(t, call(t, "acquire", name, "--kind", "semaphore", "--lease", "1m").stdout, leaseKeys...)
	if text := call(t, "ls", "--prefix", name).stdout; !strings.Contains(text, "semaphore") ||
		!strings.Contains(text, " 3/3 ") {
		t.Errorf("got %s", text)
	}
	call(t, "release", name, one["lease_id"].(string), "--kind", "semaphore").want(t, 0, "", "")
	if r := call(t, "extend", name, first["lease_id"].(string), "--lease", "2m"); r.code != 0 {
		t.Errorf("extend without a kind: %+v", r)
	}
	call(t, "unlock", name, "--force", "--reason", "stuck").want(t, 0, "unlocked "+name+"\n", "")
	v := parse(t, call(t, "inspect", name, "-o", "json").stdout, lockKeys...)
	if v["held"] != false || v["holders"] != 0.0 || v["limit"] != 3.0 || v["kind"] != "semaphore" {
		t.Errorf("got %v", v)
	}
}

func TestLimitsOfAShell(t *testing.T) {
	t.Parallel()
	const name = "limits of a shell"
	call(t, "limit", name).want(t, exitFailed, "0\n", "")
	call(t, "limit", name, "3").want(t, 0, "limit of "+name+" is 3, there was none\n", "")
	call(t, "limit", name).want(t, 0, "3\n", "")
	id := parse(t, call(t, "acquire", name, "--kind", "semaphore", "--permits", "3", "--lease", "1m").stdout,
		leaseKeys...)["lease_id"].(string)
	call(t, "limit", name, "2").want(t, 0, "limit of "+name+" is 2, was 3\n", "")
	const inJSON = `{"name":"` + name + `","limit":2,"previous":`
	call(t, "limit", name, "2", "-o", "json").want(t, 0, inJSON+"2}\n", "")
	call(t, "limit", name, "-o", "json").want(t, 0, inJSON+"null}\n", "")
	call(t, "acquire", name, "--permits", "1", "--limit", "3", "--lease", "1m").want(t, exitFailed, "",
		"LOCK_CONFIG_MISMATCH: ")
	call(t, "release", name, id, "--keep", "1").want(t, 0, "kept 1 permit of "+name+"\n", "")
	call(t, "release", name, id, "--keep", "2", "-o", "json").want(t, 0, `{"name":"`+name+`","remaining":1}`+"\n", "")
	if r := call(t, "acquire", name, "--permits", "1", "--limit", "2", "--lease", "1m"); r.code != 0 {
		t.Errorf("one of two that is free: %+v", r)
	}
	call(t, "release", name, id).want(t, 0, "", "")
	call(t, "release", name, id, "--keep", "1").want(t, exitFailed, "", "LOCK_NOT_HELD: ")
	call(t, "limit", name, "--remove").want(t, exitNotObtained, "", "LOCK_BUSY: ")
	call(t, "limit", name, "3", "--adopt").want(t, exitFailed, "", "LOCK_CONFIG_MISMATCH: ")
	call(t, "limit", name, "2", "--adopt").want(t, 0, "limit of "+name+" is 2, was 2\n", "")
	call(t, "unlock", "--force", "--reason", "stuck", name).want(t, 0, "unlocked "+name+"\n", "")
	call(t, "limit", name, "--remove").want(t, 0, "limit of "+name+" is removed, was 2\n", "")
	call(t, "limit", name).want(t, exitFailed, "0\n", "")
}

func TestExtendShortens(t *testing.T) {
	t.Parallel()
	const name = "shortened"
	id := parse(t, call(t, "acquire", name, "--lease", "1h").stdout, leaseKeys...)["lease_id"].(string)
	for _, row := range []struct {
		args        []string
		least, most float64
	}{
		{nil, 3e6, 3.6e6},
		{[]string{"--shorten"}, 3e4, 6e4},
	} {
		r := call(t, append([]string{"extend", name, id, "--lease", "1m"}, row.args...)...)
		if v := parse(t, r.stdout, leaseKeys...)["valid_for_ms"].(float64); v < row.least || v > row.most {
			t.Errorf("%v: valid for %v ms, want %v to %v", row.args, v, row.least, row.most)
		}
		v := parse(t, call(t, "inspect", name, "-o", "json").stdout, lockKeys...)
		if ttl := v["ttl_ms"].(float64); ttl < row.least || ttl > row.most {
			t.Errorf("%v: %v ms are left, want %v to %v", row.args, ttl, row.least, row.most)
		}
	}
}
