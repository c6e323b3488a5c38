package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// process is a lockctl that runs.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	out    *bufio.Reader
	stderr proctest.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: lockctl(t, args...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // when something that inherited its streams lives on
	stdin, err := p.cmd.StdinPipe()
	harness.Must(t, err)
	stdout, err := p.cmd.StdoutPipe()
	harness.Must(t, err)
	p.stdin, p.stdout, p.out = stdin, stdout.(*os.File), bufio.NewReader(stdout)
	p.begin()
	return p
}

func (p *process) begin() {
	p.t.Helper()
	harness.Must(p.t, p.cmd.Start())
	p.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // so that it ends its command, too
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			defer time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() }).Stop()
			_ = p.cmd.Wait()
		}
	})
}

func (p *process) types(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) line(want string) {
	p.t.Helper()
	if line, err := p.out.ReadString('\n'); line != want+"\n" {
		p.t.Fatalf("got %q, %v; want %q; stderr %q", line, err, want, p.stderr.String())
	}
}

// says waits until it has said something to people.
func (p *process) says(text string) {
	p.t.Helper()
	harness.Until(p.t, "it says "+text, func() bool { return strings.Contains(p.stderr.String(), text) })
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	harness.Must(p.t, p.cmd.Process.Signal(sig))
}

// end waits for the end of all that have its stdout, the command and what that left behind. It returns the exit code
// and the rest of the output.
func (p *process) end() (code int, stdout string) {
	p.t.Helper()
	_ = p.stdout.SetReadDeadline(time.Now().Add(time.Minute))
	out, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Error(err)
	}
	return codeOf(p.t, p.cmd.Wait()), string(out)
}

// wait is end, and checks what that returns.
func (p *process) wait(code int, stdout string) {
	p.t.Helper()
	if got, out := p.end(); got != code || out != stdout {
		p.t.Errorf("%q: got code %d, stdout %q, stderr %q; want %d, %q", p.cmd.Args[1:], got, out, p.stderr.String(), code,
			stdout)
	}
}

func TestExecPassesOnTheCode(t *testing.T) {
	t.Parallel()
	rows := []struct {
		argv []string
		code int
		says string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 70"}, 70, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"no-such-program"}, exitNotFound, "lockctl: COMMAND_NOT_FOUND: "},
		{[]string{"/no/such/program"}, exitNotFound, "lockctl: COMMAND_NOT_FOUND: "},
		{[]string{"/dev/null"}, exitNotRunnable, "lockctl: COMMAND_NOT_RUNNABLE: "},
	}
	for _, row := range rows {
		r := call(t, append([]string{"exec", "code", "--"}, row.argv...)...)
		if r.code != row.code || r.stdout != "" || (r.stderr == "") != (row.says == "") ||
			!strings.HasPrefix(r.stderr, row.says) {
			t.Errorf("%q: got %+v, want code %d", row.argv, r, row.code)
		}
	}
}

func TestExecPassesOnStreamsAndTellsTheFence(t *testing.T) {
	t.Parallel()
	cmd := lockctl(t, "exec", "streams", "--kind", "exclusive", "--", "sh", "-c",
		`cat; echo "$LOCKD_NAME $LOCKD_FENCE"; echo err >&2`)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in\n"), &stdout, &stderr
	harness.Must(t, cmd.Run())
	lines := strings.Split(stdout.String(), "\n")
	name, fence, _ := strings.Cut(lines[1], " ")
	if n, err := strconv.ParseUint(fence, 10, 64); lines[0] != "in" || name != "streams" || err != nil || n == 0 ||
		stderr.String() != "err\n" {
		t.Errorf("got %q and %q", stdout.String(), stderr.String())
	}
}

func TestExecWhenTheLockIsHeld(t *testing.T) {
	t.Parallel()
	hold(t, "busy")
	call(t, "exec", "busy", "--wait", "0", "--", "echo", "ran").want(t, exitNotObtained, "", "LOCK_BUSY: ")
	call(t, "exec", "busy", "--wait", "100ms", "--", "echo", "ran").want(t, exitNotObtained, "", "WAIT_TIMEOUT: ")
	p := start(t, "exec", "busy", "--", "echo", "ran")
	awaitWaiters(t, "busy", 1)
	p.signal(syscall.SIGINT)
	p.wait(exitSignal+int(syscall.SIGINT), "")
	awaitWaiters(t, "busy", 0)
}

func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	for i, sig := range forwarded {
		if signal.Ignored(sig) { // as below nohup: nobody can hear it
			continue
		}
		p := start(t, "exec", "forward"+strconv.Itoa(i), "--", "sh", "-c",
			`trap 'echo got; exit 9' INT TERM HUP QUIT USR1 USR2; echo ready; while :; do sleep 0.01; done`)
		p.line("ready")
		p.signal(sig)
		p.wait(9, "got\n")
	}
}

// stubborn is a command with a child of its own. Both ignore SIGTERM.
var stubborn = []string{"sh", "-c", "trap '' TERM; sleep 100 & echo ready; sleep 100"}

// scene is a lockctl that runs the stubborn command, with a lockd and a Redis of its own.
type scene struct {
	*process
	lockd *harness.Lockd
	redis *redistest.Server
}

func (s scene) call(args ...string) result {
	return call(s.t, append([]string{"--addr", s.lockd.Addr, "--admin-addr", s.lockd.Admin}, args...)...)
}

// However a lock is lost, the command and its children are ended. When they are is a matter of the guard.
func TestExecEndsTheCommandWithTheLock(t *testing.T) {
	t.Parallel()
	takenAfter := func(stop syscall.Signal) func(scene) {
		return func(s scene) {
			s.signal(stop)
			s.call("acquire", "n", "--lease", "1m", "--wait", "1m")
			s.signal(syscall.SIGCONT)
		}
	}
	for name, row := range map[string]struct {
		args []string
		lose func(scene)
		says string
	}{
		"it is taken": {
			lose: func(s scene) { s.call("unlock", "n", "--force", "--reason", "stuck") }, says: "LOCK_LOST: ",
		},
		"one of two is taken": {
			args: []string{"--also", "m"},
			lose: func(s scene) { s.call("unlock", "m", "--force", "--reason", "stuck") }, says: "LOCK_LOST: ",
		},
		"the lease ends":        {args: []string{"--lease", "5s"}, lose: func(scene) {}, says: "LOCK_LOST: "},
		"lockd crashed":         {args: []string{"--ttl", "5s"}, lose: func(s scene) { s.lockd.Kill() }},
		"lockd is silent":       {args: []string{"--ttl", "5s"}, lose: func(s scene) { s.lockd.Signal(syscall.SIGSTOP) }},
		"the store is silent":   {args: []string{"--ttl", "4s"}, lose: func(s scene) { s.redis.Pause() }, says: "AT_RISK: "},
		"the store forgot it":   {lose: func(s scene) { s.redis.Restart() }, says: "LOCK_LOST: "},
		"lockctl was stopped":   {args: []string{"--ttl", "5s"}, lose: takenAfter(syscall.SIGSTOP)},
		"lockctl was suspended": {args: []string{"--ttl", "5s"}, lose: takenAfter(syscall.SIGTSTP)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			lockd := harness.StartLockdWith(t, "--redis", redis.Addr)
			args := append([]string{"--addr", lockd.Addr, "exec", "n"}, row.args...)
			s := scene{start(t, append(append(args, "--"), stubborn...)...), lockd, redis}
			s.line("ready")
			row.lose(s)
			s.wait(exitLost, "")
			s.says(row.says)
			redis.Resume()
		})
	}
}

// When the server does not know it any more, exec says so, and why its session could not go on.
func TestExecSaysWhyItIsNotKnown(t *testing.T) {
	t.Parallel()
	file, token := filepath.Join(t.TempDir(), "clients"), filepath.Join(t.TempDir(), "token")
	knows := func(name, token string) {
		text := fmt.Sprintf("clients: [{name: %s, lock: ['*'], token_sha256: %x}]", name, sha256.Sum256([]byte(token)))
		harness.Must(t, os.WriteFile(file+".new", []byte(text), 0o600))
		harness.Must(t, os.Rename(file+".new", file))
	}
	harness.Must(t, os.WriteFile(token, []byte("secret"), 0o600))
	knows("ci", "secret")
	bin, err := harness.Build("lockd")
	harness.Must(t, err)
	lockd := harness.StartLockdOn(t, bin, "LOCKD_STORE_KIND=memory", "LOCKD_SECURITY_CLIENTS_FILE="+file)
	p := start(t, append([]string{"--addr", lockd.Addr, "--token-file", token, "exec", "n", "--ttl", "5s", "--"},
		stubborn...)...)
	p.line("ready")
	knows("other", "other")
	p.wait(exitLost, "")
	p.says("lockctl: IDENTITY_WITHDRAWN: ")
	p.says("lockctl: TOKEN_INVALID: resume the session at ")
}

func TestExecEndsPolitelyFirst(t *testing.T) {
	t.Parallel()
	for _, lease := range []string{"3s", "20s"} { // with the first the command may have too little time
		p := start(t, "exec", "polite", "--lease", lease, "--", "sh", "-c",
			`trap 'echo tidy; exit 0' TERM; while :; do sleep 0.01; done`)
		code, out := p.end()
		if code == exitLost && out == "tidy\n" {
			return
		}
		t.Logf("with a lease of %s: code %d, stdout %q, stderr %q", lease, code, out, p.stderr.String())
	}
	t.Error("the command could not end by itself")
}

// The kernel kills the command of a lockctl that is killed, but not the command's children.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	p := start(t, "exec", "killed", "--", "sh", "-c", "trap '' TERM; echo ready; exec sleep 100")
	p.line("ready")
	p.signal(syscall.SIGKILL)
	p.wait(-1, "")
}

func TestExecEndsWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	p := start(t, "exec", "left", "--", "sh", "-c", "trap '' TERM; sleep 100 & exit 3")
	p.wait(3, "")
	p.says("LEFT_BEHIND: ")
}

// TestNestedExecsAreOneActor has two scripts take two locks in different orders, each by an exec inside of another. It
// fails if lockd does not know that an inner exec waits on behalf of the outer one: the two would wait for ever.
func TestNestedExecsAreOneActor(t *testing.T) {
	t.Parallel()
	const script = `: >"$1"; until test -e "$2"; do sleep 0.01; done; shift 2; exec "$0" exec "$@" -- echo done`
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	first := start(t, "exec", "nested-a", "--", "sh", "-c", script, bin, a, b, "nested-b")
	second := start(t, "exec", "nested-b", "--", "sh", "-c", script, bin, b, a, "nested-a", "--fail-on-deadlock")
	second.wait(exitNotObtained, "")
	second.says("DEADLOCK: ")
	first.wait(0, "done\n")
}

func TestNestedExecOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	const script = `"$0" exec nested:b -- sh -c 'echo $LOCKD_NAMES; test $(echo "$LOCKD_FENCES" | wc -l) = 2 && "$0" exec nested:a -- echo ran' "$0"`
	call(t, "exec", "nested:a", "--", "sh", "-c", script, bin).want(t, exitUsage, "nested:b nested:a\n",
		`NESTED: exec "nested:a"`)
}

func TestExecSaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	first := start(t, "exec", "who", "--client-name", "nightly", "--annotation", "back up", "--", "sh", "-c",
		"echo ready; read x")
	first.line("ready")
	second := start(t, "exec", "who", "--", "echo", "ran")
	second.says(`WAITING: for "who"`)
	for _, try := range [][]string{
		{"exec", "who", "--wait", "0", "--", "echo", "ran"}, {"acquire", "who", "--lease", "1m"},
	} {
		if r := call(t, try...); r.code != exitNotObtained || !strings.Contains(r.stderr, " by nightly (back up) from ") {
			t.Errorf("%q: got %+v", try, r)
		}
	}
	first.stdin.Close()
	second.wait(0, "ran\n")
	if text := second.stderr.String(); strings.Count(text, `WAITING: for "who", held by nightly (back up) from `) != 1 {
		t.Errorf("stderr %q", text)
	}
}

func TestExecEndsACommandThatHangsAtTheEndOfMaxHold(t *testing.T) {
	t.Parallel()
	p := start(t, "exec", "most", "--max-hold", "4s", "--", "sh", "-c", "echo ready; exec sleep 1000")
	p.line("ready")
	p.wait(exitLost, "")
	p.says("the lock was lost: ")
	call(t, "exec", "most", "--", "echo", "ran").want(t, 0, "ran\n", "")
	call(t, "exec", "most", "--max-hold", "3s", "--lease", "3s", "--", "true").want(t, exitUsage, "", "INVALID_DURATION: ")
}

// Without --connect-timeout exec waits for a server, or a store, as long as that is away; with it, or with --wait, no
// longer than that says.
func TestExecWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	exec := func(name string, args ...string) []string {
		return append(append([]string{"--addr", s.Addr, "exec", name}, args...), "--", "echo", "ran")
	}
	for _, row := range []struct{ away, back func() }{{s.Kill, s.Restart}, {redis.Pause, redis.Resume}} {
		row.away()
		p := start(t, exec("n")...)
		p.says("WAITING: for the server")
		var bounded sync.WaitGroup
		for name, args := range map[string][]string{
			"wait": {"--wait", "2s"}, "connect": {"--wait", "1m", "--connect-timeout", "2s"},
		} {
			bounded.Go(func() {
				begun := time.Now()
				r := call(t, exec(name, args...)...)
				if lasted := time.Since(begun); r.code != exitUnavailable && r.code != exitNotObtained || r.stdout != "" ||
					lasted < 2*time.Second || lasted > 50*time.Second {
					t.Errorf("%q: got %+v after %v", args, r, lasted)
				}
			})
		}
		bounded.Wait()
		row.back()
		p.wait(0, "ran\n")
	}
}
