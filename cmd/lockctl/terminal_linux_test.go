package main

import (
	"bufio"
	"fmt"
	"os"
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
	harness.Must(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	harness.Must(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	harness.Must(t, err)
	theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	harness.Must(t, err)
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// startOnTerminal starts a lockctl that a terminal belongs to, as if a shell had started it in the foreground.
func startOnTerminal(t *testing.T, args ...string) *process {
	t.Helper()
	ours, theirs := openPTY(t)
	p := &process{t: t, cmd: lockctl(t, args...), stdin: ours, out: bufio.NewReader(ours)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, theirs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.begin()
	return p
}

// shows reads on until a line ends with this text; a terminal also shows what was typed.
func (p *process) shows(want string) {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("%q did not come: %v", want, err)
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
		harness.Must(t, err)
		_, rest, _ := strings.Cut(string(data), ") ")
		return strings.Contains(want, rest[:1])
	})
}

// foreground is the process group that reads from the terminal.
func (p *process) foreground() int {
	p.t.Helper()
	pgid, err := unix.IoctlGetInt(int(p.stdin.(*os.File).Fd()), unix.TIOCGPGRP)
	harness.Must(p.t, err)
	return pgid
}

func TestExecGivesTheTerminalToTheCommand(t *testing.T) {
	t.Parallel()
	p := startOnTerminal(t, "exec", "tty", "--", "sh", "-c",
		`trap 'echo got int; exit 5' INT; echo ready; read x; echo "read $x"; while :; do sleep 0.01; done`)
	p.shows("ready")
	if fg := p.foreground(); fg == p.cmd.Process.Pid {
		t.Error("the terminal still belongs to lockctl")
	}
	p.types("words\n")
	p.shows("read words")
	p.types("\x03") // Ctrl-C
	p.shows("got int")
	if code := codeOf(t, p.cmd.Wait()); code != 5 {
		t.Errorf("code %d", code)
	}
}

func TestExecIsSuspendedWithTheCommand(t *testing.T) {
	t.Parallel()
	p := startOnTerminal(t, "exec", "tty-stop", "--", "sh", "-c", `echo ready; read x; echo "read $x"`)
	p.shows("ready")
	p.types("\x1a") // Ctrl-Z
	awaitState(t, p.cmd.Process.Pid, "T")
	if fg := p.foreground(); fg != p.cmd.Process.Pid {
		t.Errorf("the terminal belongs to group %d while lockctl is stopped, want it at lockctl's", fg)
	}
	p.signal(syscall.SIGCONT) // as fg does
	awaitState(t, p.cmd.Process.Pid, "SR")
	p.types("on\n")
	p.shows("read on")
	if code := codeOf(t, p.cmd.Wait()); code != 0 {
		t.Errorf("code %d", code)
	}
}

// Without a terminal Ctrl-Z does not come, but SIGTSTP may. The command must not work on while lockctl sleeps.
func TestExecIsSuspendedBySignal(t *testing.T) {
	t.Parallel()
	p := start(t, "exec", "tstp", "--", "sh", "-c", "echo $$; read x; echo $x")
	text, err := p.out.ReadString('\n')
	harness.Must(t, err)
	p.signal(syscall.SIGTSTP)
	awaitState(t, p.cmd.Process.Pid, "T")
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	harness.Must(t, err)
	awaitState(t, pid, "T")
	p.signal(syscall.SIGCONT)
	p.types("on\n")
	p.wait(0, "on\n")
}
