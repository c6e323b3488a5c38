package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// addr is a real server with its leases in memory, adminAddr is where its operators connect; bin is lockctl as it is
// shipped.
var addr, adminAddr, bin string

func TestMain(m *testing.M) {
	flag.Parse()
	s := harness.WithLockd(func(d *harness.Lockd) (err error) {
		addr, adminAddr = d.Addr, d.Admin
		bin, err = harness.Build("lockctl")
		return errors.Join(err, os.Setenv(addrEnv, addr), os.Setenv(adminAddrEnv, adminAddr))
	})
	s.SideBySide = "8"
	os.Exit(harness.Run(m, s))
}

// result is what a run of lockctl left.
type result struct {
	code           int
	stdout, stderr string
}

// lockctl is a run that was not started yet.
func lockctl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Env = os.Environ()
	return cmd
}

// call runs lockctl to its end.
func call(t *testing.T, args ...string) result {
	t.Helper()
	return callWith(t, nil, args...)
}

// callWith is call with further variables. A command that uses neither those nor the streams or signals of a process
// runs in this one.
func callWith(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if len(env) == 0 && !slices.Contains(args, "exec") {
		code := run(args, &stdout, &stderr)
		return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
	}
	cmd := lockctl(t, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return result{code: codeOf(t, cmd.Run()), stdout: stdout.String(), stderr: stderr.String()}
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func (r result) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || r.stdout != stdout || !strings.Contains(r.stderr, stderr) || stderr == "" && r.stderr != "" {
		t.Errorf("got code %d, stdout %q, stderr %q; want %d, %q, %q", r.code, r.stdout, r.stderr, code, stdout, stderr)
	}
}

// parse checks that a text is exactly one JSON value in one line, with exactly these keys, and returns it.
func parse(t *testing.T, text string, keys ...string) map[string]any {
	t.Helper()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("got %q, want one line", text)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	got, want := slices.Sorted(maps.Keys(v)), slices.Sorted(slices.Values(keys))
	if !slices.Equal(got, want) {
		t.Errorf("got the keys %q, want %q", got, want)
	}
	return v
}

func dial(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(addr, client.WithName("the test"))
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func hold(t *testing.T, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := dial(t).Lock(t.Context(), name, opts...)
	harness.Must(t, err)
	return l
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"acquires n":                             "did you mean acquire?",
		"relaese":                                "did you mean release?",
		"--bogus ls":                             "unknown flag: --bogus; see lockctl --help",
		"ls --bogus":                             "unknown flag: --bogus; see lockctl ls --help",
		"ls word":                                "usage: lockctl ls",
		"ls -o yaml":                             "--output must be",
		"ls --addr a:x":                          "the port must be a number",
		"watch n --addr a,,b":                    "it is empty",
		"inspect":                                "usage: lockctl inspect",
		"exec n true":                            "usage: lockctl exec",
		"exec -- true":                           "usage: lockctl exec",
		"exec n --":                              "usage: lockctl exec",
		"exec n --kind mutex -- true":            "the kinds are exclusive, fair, read, write and semaphore",
		"exec n --wait soon -- true":             "--wait",
		"exec n --wait -1s -- true":              "--wait must not be negative",
		"exec n --kind fair --permits 2 -- true": "are for a semaphore",
		"exec n --permits -1 -- true":            "--permits",
		"exec n --also : -- true":                "INVALID_NAME",
		"exec n --also read: -- true":            "INVALID_NAME",
		"exec n --also mutex:x -- true":          `":mutex:x"`,
		"acquire n":                              "--lease is missing",
		"acquire n --lease 0s":                   "--lease must be more than 0",
		"acquire n --lease 1s --wait -1s":        "--wait must not be negative",
		"acquire n --lease 1s --kind write --limit 2": "are for a semaphore",
		"acquire n --lease 1s --also m":               "--also",
		"extend n id":                                 "--lease is missing",
		"release n id --keep 1 --kind read":           "--keep is for a semaphore",
		"unlock n":                                    "say --force",
		"unlock n --force":                            "--reason",
		"end n":                                       "say --force",
		"end n --force":                               "--reason",
		"drain --undo --within 1s":                    "lockctl drain --undo",
		"drain --within 0s":                           "above 0",
		"limit":                                       "usage: lockctl limit NAME [N]",
		"limit n 0":                                   "the limit must be a number",
		"limit n 2147483648":                          "the limit must be a number",
		"limit n 2 --remove":                          "usage: lockctl limit NAME --remove",
		"limit n --adopt":                             "usage: lockctl limit NAME --remove",
		"bench --callers 0":                           "must be positive",
		"can":                                         "usage: lockctl can lock|look NAME",
		"can lock":                                    "usage: lockctl can lock|look NAME",
		"can drain n":                                 "usage: lockctl can lock|look NAME",
		"can fly n":                                   "usage: lockctl can lock|look NAME",
	} {
		call(t, strings.Fields(line)...).want(t, exitUsage, "", want)
	}
	call(t, "acquire", "", "--lease", "1s").want(t, exitUsage, "", "INVALID_NAME")
	if r := call(t, "--help"); r.code != 0 || !strings.Contains(r.stdout, "exec") {
		t.Errorf("--help: %+v", r)
	}
}

// Errors are JSON with -o json, those about the flags too. They tell the reason once.
func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	hold(t, "json-held")
	for _, row := range []struct {
		args   []string
		reason string
		code   int
	}{
		{[]string{"acquire", "json-held", "--lease", "1s", "-o", "json"}, "LOCK_BUSY", exitNotObtained},
		{[]string{"exec", "json-held", "--wait", "0", "-o", "json", "--", "true"}, "LOCK_BUSY", exitNotObtained},
		{[]string{"acquire", "json", "--lease", "1ms", "-o", "json"}, "INVALID_DURATION", exitUsage},
		{[]string{"inspect", "json-nobody", "-o", "json"}, "UNKNOWN_NAME", exitFailed},
		{[]string{"ls", "--no-such-flag", "--output=json"}, "USAGE", exitUsage},
		{[]string{"no-such-command", "-o", "json"}, "USAGE", exitUsage},
	} {
		r := call(t, row.args...)
		v := parse(t, r.stderr, "reason", "error", "exit_code")
		if r.code != row.code || v["exit_code"] != float64(row.code) || v["reason"] != row.reason || r.stdout != "" ||
			strings.Count(r.stderr, row.reason) != 1 {
			t.Errorf("%q: got %+v", row.args, r)
		}
	}
}

func TestSeveralServers(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"127.0.0.1:1," + addr, addr + ",127.0.0.1:1"} {
		call(t, "--addr", list, "ls", "--prefix", "several-servers", "-o", "json").want(t, 0, "[]\n", "")
		call(t, "--addr", list, "exec", "several-servers", "--wait", "5s", "--", "true").want(t, 0, "", "")
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	rows := [][]string{
		{"ls"},
		{"inspect", "n"},
		{"watch", "n"},
		{"--admin-addr", "127.0.0.1:1", "unlock", "n", "--force", "--reason", "stuck"},
		{"acquire", "n", "--lease", "1s"},
		{"release", "n", "1234567890123456789012"},
		{"exec", "n", "--", "true"},
		{"exec", "n", "--wait", "0", "--", "true"},
		{"exec", "n", "--wait", "100ms", "--", "true"},
		{"bench"},
	}
	for _, args := range rows {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			r := call(t, append([]string{"--addr", "127.0.0.1:1", "--connect-timeout", "300ms"}, args...)...)
			r.want(t, exitUnavailable, "", "UNAVAILABLE: ")
		})
	}
}

// serve runs a server of a test's own, and returns its address.
func serve(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	srv := grpc.NewServer(opts...)
	register(srv)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return lis.Addr().String()
}

// Texts that no message can have are refused before anything is sent. A command may be called anything.
func TestTextsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"acquire", "n\xff", "--lease", "1s"},
		{"release", "n", "n\xff"},
		{"watch", "n\xff"},
		{"ls", "--prefix", "n\xff"},
		{"exec", "n", "--also", "n\xff", "--", "true"},
		{"exec", "n", "--label", "a=n\xff", "--", "true"},
		{"limit", "--", "n\xff"},
	} {
		nowhere := []string{"--addr", "127.0.0.1:1", "--admin-addr", "127.0.0.1:1", "--connect-timeout", "1h"}
		call(t, append(nowhere, args...)...).want(t, exitUsage, "", "UTF-8")
	}
	call(t, "exec", "n", "--annotation", "a", "--", "true", "n\xff").want(t, 0, "", "")
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		24 * time.Hour:                     "24h",
		90 * time.Second:                   "1m30s",
		time.Hour + 30*time.Second:         "1h0m30s",
		time.Hour + 30*time.Minute:         "1h30m",
		10 * time.Minute:                   "10m",
		20 * time.Second:                   "20s",
		29_695 * time.Millisecond:          "29.7s",
		59_990 * time.Millisecond:          "1m",
		1500 * time.Millisecond:            "1.5s",
		250 * time.Millisecond:             "250ms",
		250*time.Millisecond + 100:         "250ms",
		0:                                  "0s",
		3*time.Hour + 900*time.Millisecond: "3h0m1s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
}
