package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY makes a terminal: what is written to ours is typed, what is read from it is shown.
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// session is a lockctl that a terminal belongs to, as if a shell had started it in the foreground.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File
	out  *bufio.Reader
}

func startSession(t *testing.T, args ...string) *session {
	t.Helper()
	ours, theirs := openPTY(t)
	cmd := lockctl(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &session{t: t, cmd: cmd, keys: ours, out: bufio.NewReader(ours)}
}

func (s *session) typed(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// line reads on until a line ends with this text; a terminal also shows what was typed.
func (s *session) line(want string) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%q did not come: %v", want, err)
		}
		if strings.HasSuffix(strings.TrimSpace(line), want) {
			return
		}
	}
}

// state waits until lockctl has a state as in /proc: T is stopped, S and R are not.
func (s *session) state(want string) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			s.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if strings.Contains(want, rest[:1]) {
			return
		}
	}
	s.t.Fatalf("lockctl did not get into the state %q", want)
}

func (s *session) foreground() int {
	s.t.Helper()
	pgid, err := unix.IoctlGetInt(int(s.keys.Fd()), unix.TIOCGPGRP)
	if err != nil {
		s.t.Fatal(err)
	}
	return pgid
}

func TestExecGivesTheTerminalToTheCommand(t *testing.T) {
	t.Parallel()
	s := startSession(t, "exec", "tty", "--", "sh", "-c",
		`trap 'echo got int; exit 5' INT; echo ready; read x; echo "read $x"; while :; do sleep 0.01; done`)
	s.line("ready")
	if fg := s.foreground(); fg == s.cmd.Process.Pid {
		t.Error("the terminal still belongs to lockctl")
	}
	s.typed("words\n")
	s.line("read words")
	s.typed("\x03") // Ctrl-C
	s.line("got int")
	if code := codeOf(t, s.cmd.Wait()); code != 5 {
		t.Errorf("code %d", code)
	}
}

func TestExecIsSuspendedWithTheCommand(t *testing.T) {
	t.Parallel()
	s := startSession(t, "exec", "tty-stop", "--", "sh", "-c", `echo ready; read x; echo "read $x"`)
	s.line("ready")
	s.typed("\x1a") // Ctrl-Z
	s.state("T")
	if fg := s.foreground(); fg != s.cmd.Process.Pid {
		t.Errorf("the terminal belongs to group %d while lockctl is stopped, want it at lockctl's", fg)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil { // as fg does
		t.Fatal(err)
	}
	s.state("SR")
	s.typed("on\n")
	s.line("read on")
	if code := codeOf(t, s.cmd.Wait()); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestExecIsSuspendedPastTheLease(t *testing.T) {
	t.Parallel()
	s := startSession(t, "exec", "tty-late", "--ttl", "3s", "--", "sh", "-c", `trap '' TERM; echo ready; exec sleep 1000`)
	s.line("ready")
	s.typed("\x1a")
	s.state("T")
	hold(t, "tty-late")
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := codeOf(t, s.cmd.Wait()); code != exitLost {
		t.Errorf("code %d", code)
	}
}

// Without a terminal Ctrl-Z does not come, but SIGTSTP may. The command must not work on while lockctl sleeps.
func TestExecIsSuspendedBySignal(t *testing.T) {
	t.Parallel()
	inTime(t, suspendedBySignal)
}

func suspendedBySignal(t *testing.T, n string) (late time.Duration) {
	dir, name := t.TempDir(), "tstp"+n
	r := start(t, append([]string{"exec", name, "--"}, stubborn(dir)...)...)
	r.line("ready")
	r.signal(syscall.SIGTSTP)
	(&session{t: t, cmd: r.cmd}).state("T")
	stopped := time.Now()
	late = outlived(t, dir, stopped.Add(50*time.Millisecond), "outer", "inner")
	r.signal(syscall.SIGCONT)
	for lastSign(t, dir, "outer").Before(stopped) {
		time.Sleep(time.Millisecond)
	}
	call(t, "unlock", name, "--force", "--reason", "stuck").want(t, 0, "unlocked "+name+"\n", "")
	if code, _ := r.wait(); code != exitLost {
		t.Errorf("code %d", code)
	}
	return late
}
