//go:build !windows

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestExecPassesOnTheCode(t *testing.T) {
	t.Parallel()
	rows := []struct {
		argv []string
		code int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 3"}, 3},
		{[]string{"sh", "-c", "exit 70"}, 70},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143},
		{[]string{"no-such-program"}, exitNotFound},
		{[]string{"/no/such/program"}, exitNotFound},
		{[]string{"/dev/null"}, exitNotRunnable},
	}
	for _, row := range rows {
		r := call(t, append([]string{"exec", "code", "--"}, row.argv...)...)
		if r.code != row.code || r.stdout != "" ||
			(r.stderr == "") != (row.code != exitNotFound && row.code != exitNotRunnable) {
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
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
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
}

func TestExecIsInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	hold(t, "wait-int")
	r := start(t, "exec", "wait-int", "--", "echo", "ran")
	awaitWaiters(t, "wait-int", 1)
	r.signal(syscall.SIGINT)
	if code, out := r.wait(); code != exitSignal+int(syscall.SIGINT) || out != "" {
		t.Errorf("code %d, output %q", code, out)
	}
	awaitWaiters(t, "wait-int", 0)
}

// inTime fails if what must be over in time never is, in a few tries: the machine does other things, too. A try has
// names of its own, and says how much too long it took.
func inTime(t *testing.T, try func(t *testing.T, n string) (late time.Duration)) {
	t.Helper()
	for n := range 3 {
		late := try(t, strconv.Itoa(n))
		if late <= 0 || t.Failed() {
			return
		}
		t.Logf("%v too long", late)
	}
	t.Error("it took too long each time")
}

func TestExecReleasesAtOnce(t *testing.T) {
	t.Parallel()
	inTime(t, releasesAtOnce)
}

func releasesAtOnce(t *testing.T, n string) (late time.Duration) {
	c, name := dial(t), "at-once"+n
	r := start(t, "exec", name, "--", "sh", "-c", "echo ready; read x; date +%s%N")
	r.line("ready")
	got := make(chan time.Time, 1)
	go func() {
		if _, err := c.Lock(t.Context(), name); err != nil {
			t.Error(err)
		}
		got <- time.Now()
	}()
	awaitWaiters(t, name, 1)
	r.stdin.Close()
	code, out := r.wait()
	ns, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if code != 0 || err != nil {
		t.Fatalf("code %d, output %q", code, out)
	}
	return (<-got).Sub(time.Unix(0, ns)) - 500*time.Millisecond // 50 ms on a machine with nothing else to do
}

func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	for i, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if signal.Ignored(sig) { // as below nohup: nobody can hear it
			continue
		}
		r := start(t, "exec", "forward"+strconv.Itoa(i), "--", "sh", "-c",
			`trap 'echo got; exit 9' INT TERM HUP USR1; echo ready; while :; do sleep 0.01; done`)
		r.line("ready")
		r.signal(sig)
		if code, out := r.wait(); code != 9 || out != "got\n" {
			t.Errorf("%v: code %d, output %q", sig, code, out)
		}
	}
}

// stubborn is a command with a child of its own. Both ignore SIGTERM and write down every few milliseconds that they
// live, in a file each.
func stubborn(dir string) []string {
	return []string{"sh", "-c", `
		trap '' TERM
		(while :; do date +%s%N > "$0/inner.tmp"; mv "$0/inner.tmp" "$0/inner"; sleep 0.01; done) &
		while ! test -f "$0/inner"; do sleep 0.01; done
		date +%s%N > "$0/outer"
		echo ready
		while :; do date +%s%N > "$0/outer.tmp"; mv "$0/outer.tmp" "$0/outer"; sleep 0.01; done`, dir}
}

// lastSign is when the stubborn command last lived.
func lastSign(t *testing.T, dir, who string) time.Time {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, who))
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}

// outlived is for how long the stubborn command lived after a time.
func outlived(t *testing.T, dir string, since time.Time, who ...string) (longest time.Duration) {
	t.Helper()
	time.Sleep(100 * time.Millisecond) // if it lives it shows
	for _, w := range who {
		longest = max(longest, lastSign(t, dir, w).Sub(since))
	}
	return longest
}

func TestExecWhenTheLockIsTaken(t *testing.T) {
	t.Parallel()
	inTime(t, whenTaken)
}

func whenTaken(t *testing.T, n string) (late time.Duration) {
	dir, name := t.TempDir(), "taken"+n
	r := start(t, append([]string{"exec", name, "--"}, stubborn(dir)...)...)
	r.line("ready")
	call(t, "unlock", name, "--force", "--reason", "stuck").want(t, 0, "unlocked "+name+"\n", "")
	taken := time.Now()
	if code, _ := r.wait(); code != exitLost || !strings.Contains(r.stderr.String(), "LOCK_LOST: ") {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	return outlived(t, dir, taken.Add(lostGrace+300*time.Millisecond), "outer", "inner")
}

func TestExecEndsPolitelyFirst(t *testing.T) {
	t.Parallel()
	r := start(t, "exec", "polite", "--lease", "2s", "--", "sh", "-c",
		`trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	r.line("ready")
	if code, out := r.wait(); code != exitLost || out != "tidy\n" {
		t.Errorf("code %d, output %q, stderr %q", code, out, r.stderr.String())
	}
}

// The server is there but answers nothing: the command must be dead before the lease is given to somebody else.
func TestExecWhenCutOff(t *testing.T) {
	t.Parallel()
	inTime(t, whenCutOff)
}

func whenCutOff(t *testing.T, _ string) (late time.Duration) {
	s := harness.StartLockdWith(t)
	dir := t.TempDir()
	r := start(t, append([]string{"exec", "cut-off", "--addr", s.Addr, "--ttl", "2s", "--"}, stubborn(dir)...)...)
	r.line("ready")
	time.Sleep(time.Second) // so that heartbeats have moved the deadline
	s.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	if code, _ := r.wait(); code != exitLost || !strings.Contains(r.stderr.String(), "LOCK_LOST: ") {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	// The last renewal was before the stop, so the lease ends 2 s after it at the latest.
	return outlived(t, dir, stopped.Add(2*time.Second), "outer", "inner")
}

// The server is there but its store is not.
func TestExecWhenTheStoreIsAway(t *testing.T) {
	t.Parallel()
	inTime(t, whenTheStoreIsAway)
}

func whenTheStoreIsAway(t *testing.T, _ string) (late time.Duration) {
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	dir := t.TempDir()
	r := start(t, append([]string{"exec", "store", "--addr", s.Addr, "--ttl", "4s", "--"}, stubborn(dir)...)...)
	r.line("ready")
	redis.Pause()
	paused := time.Now()
	code, _ := r.wait()
	redis.Resume()
	if stderr := r.stderr.String(); code != exitLost || !strings.Contains(stderr, "AT_RISK: ") ||
		!strings.Contains(stderr, "LOCK_LOST: ") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	return outlived(t, dir, paused.Add(4*time.Second), "outer", "inner")
}

// With --connect-timeout exec waits for so long for a store that is away, as for a server.
func TestExecWaitsForTheStoreAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	redis.Pause()
	t.Cleanup(redis.Resume)
	const timeout = 4 * time.Second
	args := []string{"--addr", s.Addr, "--connect-timeout", timeout.String(), "--", "true"}
	begun := time.Now()
	waits := start(t, append([]string{"exec", "waits", "--wait", "1m"}, args...)...)
	if code, _ := waits.wait(); code != exitUnavailable {
		t.Errorf("code %d, want %d; stderr %q", code, exitUnavailable, waits.stderr.String())
	}
	if took := time.Since(begun); took < timeout || took > 2*timeout {
		t.Errorf("gave up after %v, want about %v", took, timeout)
	}
	gets := start(t, append([]string{"exec", "gets"}, args...)...)
	for !strings.Contains(gets.stderr.String(), "WAITING: for the server") {
		if time.Since(begun) > 4*timeout {
			t.Fatalf("it does not say that it waits: %q", gets.stderr.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	redis.Resume()
	if code, _ := gets.wait(); code != 0 {
		t.Errorf("code %d although the store came back; stderr %q", code, gets.stderr.String())
	}
}

// While no server takes the session the lease counts, and all is over before it ends.
func TestExecWhenTheServerCrashes(t *testing.T) {
	t.Parallel()
	inTime(t, whenTheServerCrashes)
}

func whenTheServerCrashes(t *testing.T, _ string) (late time.Duration) {
	const ttl = 3 * time.Second
	s := harness.StartLockdWith(t)
	dir := t.TempDir()
	r := start(t, append([]string{"exec", "crash", "--ttl", ttl.String(), "--addr", s.Addr, "--"}, stubborn(dir)...)...)
	r.line("ready")
	s.Kill()
	crashed := time.Now()
	if code, _ := r.wait(); code != exitLost {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	return outlived(t, dir, crashed.Add(ttl), "outer", "inner")
}

// A server that comes back without its memory says that the session is gone.
func TestExecWhenTheServerForgets(t *testing.T) {
	t.Parallel()
	inTime(t, whenTheServerForgets)
}

func whenTheServerForgets(t *testing.T, _ string) (late time.Duration) {
	s := harness.StartLockdWith(t)
	dir := t.TempDir()
	r := start(t, append([]string{"exec", "crash", "--addr", s.Addr, "--"}, stubborn(dir)...)...)
	r.line("ready")
	s.Restart()
	back := time.Now()
	if code, _ := r.wait(); code != exitLost {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	// after the longest pause of the client
	return outlived(t, dir, back.Add(3*time.Second+lostGrace+300*time.Millisecond), "outer", "inner")
}

func TestExecStoppedPastTheLease(t *testing.T) {
	t.Parallel()
	inTime(t, stoppedPastTheLease)
}

func stoppedPastTheLease(t *testing.T, n string) (late time.Duration) {
	dir, name := t.TempDir(), "paused"+n
	r := start(t, append([]string{"exec", name, "--ttl", "2s", "--"}, stubborn(dir)...)...)
	r.line("ready")
	r.signal(syscall.SIGSTOP)
	hold(t, name) // after the lease ran out
	continued := time.Now()
	r.signal(syscall.SIGCONT)
	if code, _ := r.wait(); code != exitLost {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	return outlived(t, dir, continued.Add(150*time.Millisecond), "outer", "inner")
}

func TestExecKilled(t *testing.T) {
	t.Parallel()
	inTime(t, whenKilled)
}

func whenKilled(t *testing.T, n string) (late time.Duration) {
	dir := t.TempDir()
	r := start(t, append([]string{"exec", "killed" + n, "--"}, stubborn(dir)...)...)
	defer endStubborn(t, dir)
	r.line("ready")
	r.signal(syscall.SIGKILL)
	killed := time.Now()
	_, _ = r.cmd.Process.Wait()
	return outlived(t, dir, killed.Add(100*time.Millisecond), "outer")
}

// endStubborn ends the inner process, which outlives a killed lockctl: without its directory it can do nothing, but
// it would go on trying.
func endStubborn(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if data, err := os.ReadFile(f); err == nil && strings.HasSuffix(string(data), "\x00"+dir+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // a process of this test: it has its directory as an argument
		}
	}
}

func TestExecEndsWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, "exec", "left", "--", "sh", "-c", `
		(trap '' TERM; while :; do date +%s%N > "$0/inner.tmp"; mv "$0/inner.tmp" "$0/inner"; sleep 0.01; done
		) </dev/null >/dev/null 2>&1 &
		while ! test -f "$0/inner"; do sleep 0.01; done`, dir)
	if code, _ := r.wait(); code != 0 || !strings.Contains(r.stderr.String(), "LEFT_BEHIND: ") {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
	if d := outlived(t, dir, time.Now(), "inner"); d > 0 {
		t.Errorf("the inner process lived for %v after the end", d)
	}
}

// process is a lockctl that runs.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	out    *bufio.Reader
	stderr proctest.Buffer
}

// TestNestedExecsAreOneActor has two scripts take two locks in different orders, each by an exec inside of another. It
// fails if lockd does not know that an inner exec waits on behalf of the outer one: the two would wait for ever.
func TestNestedExecsAreOneActor(t *testing.T) {
	t.Parallel()
	const script = `: >"$1"; until test -e "$2"; do sleep 0.01; done; shift 2; exec "$0" exec "$@" -- echo done`
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	first := start(t, "exec", "nested-a", "--", "sh", "-c", script, bin, a, b, "nested-b")
	second := start(t, "exec", "nested-b", "--", "sh", "-c", script, bin, b, a, "nested-a", "--fail-on-deadlock")
	if code, _ := second.wait(); code != exitNotObtained || !strings.Contains(second.stderr.String(), "DEADLOCK: ") {
		t.Errorf("the one that may fail: code %d, %q", code, second.stderr.String())
	}
	if code, out := first.wait(); code != 0 || out != "done\n" {
		t.Errorf("the other one: code %d, %q, %q", code, out, first.stderr.String())
	}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: lockctl(t, args...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // when something that inherited its streams lives on
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.out = stdin, bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // so that it ends its command, too
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		}
	})
	return p
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
	for end := time.Now().Add(20 * time.Second); !strings.Contains(p.stderr.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("it does not say %q: %q", text, p.stderr.String())
		}
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns the code and the rest of the output.
func (p *process) wait() (int, string) {
	p.t.Helper()
	out, err := io.ReadAll(p.out)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		p.t.Error(err)
	}
	return codeOf(p.t, p.cmd.Wait()), string(out)
}
