package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockd-io/lockd/test/harness"
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

// awaitState waits until a process has a state as in /proc: T is stopped, S and R are not.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	harness.Until(t, "the state "+want, func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		return strings.Contains(want, rest[:1])
	})
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
	awaitState(t, s.cmd.Process.Pid, "T")
	if fg := s.foreground(); fg != s.cmd.Process.Pid {
		t.Errorf("the terminal belongs to group %d while lockctl is stopped, want it at lockctl's", fg)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil { // as fg does
		t.Fatal(err)
	}
	awaitState(t, s.cmd.Process.Pid, "SR")
	s.typed("on\n")
	s.line("read on")
	if code := codeOf(t, s.cmd.Wait()); code != 0 {
		t.Errorf("code %d", code)
	}
}

// Without a terminal Ctrl-Z does not come, but SIGTSTP may. The command must not work on while lockctl sleeps.
func TestExecIsSuspendedBySignal(t *testing.T) {
	t.Parallel()
	p := start(t, "exec", "tstp", "--", "sh", "-c", "echo $$; read x; echo $x")
	text, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTSTP)
	awaitState(t, p.cmd.Process.Pid, "T")
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	awaitState(t, pid, "T")
	p.signal(syscall.SIGCONT)
	_, _ = io.WriteString(p.stdin, "on\n")
	p.wait(0, "on\n")
}
