package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []syscall.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// grace is how long a process group may take to do what a signal asks of it, where nothing else bounds that.
const grace = 200 * time.Millisecond

// child is the command's process group.
type child struct {
	pid    int // that of the command and of the group
	events chan event
	tty    terminal

	// Of an ended command, if it is reaped already: how it ended.
	reaped bool
	status syscall.WaitStatus
}

// event is what the command did.
type event int

const (
	ended event = iota
	stopped
)

// startChild starts the command with our stdin, stdout and stderr, in a group of its own, in the foreground of the
// terminal if we are there.
func startChild(path string, argv, env []string) (*child, error) {
	c := &child{events: make(chan event), tty: openTerminal()}
	cmd := exec.Cmd{
		Path: path, Args: argv, Env: append(os.Environ(), env...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: childAttributes(),
	}
	if c.tty.ours() {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(c.tty)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.pid = cmd.Process.Pid
	if c.tty.foreground() != 0 {
		signal.Ignore(syscall.SIGTTOU) // so that we can take the terminal back from the background
	}
	go c.wait()
	return c, nil
}

// wait tells of the command's stops and its end.
func (c *child) wait() {
	for {
		e, err := c.await()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		c.events <- e
		if err != nil || e == ended {
			return
		}
	}
}

// signal sends a signal to the whole group, which may be gone already.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// stop stops the whole group and waits until the command has stopped, for grace at most: a command that is just
// starting a process may be stuck in that.
func (c *child) stop() event {
	c.signal(syscall.SIGSTOP)
	select {
	case e := <-c.events:
		return e
	case <-time.After(grace):
		return stopped
	}
}

// inForeground says whether the command has the terminal.
func (c *child) inForeground() bool { return c.tty.foreground() == c.pid }

// suspend stops lockctl until it is continued, then calls check, which may end the group, and continues the group.
func (c *child) suspend(check func()) {
	wasForeground := c.inForeground()
	if wasForeground {
		c.tty.give(syscall.Getpgrp())
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err == nil {
		<-continued
	}
	check()
	if wasForeground && c.tty.ours() {
		c.tty.give(c.pid)
	}
	c.signal(syscall.SIGCONT)
}

// cleanUp reaps the ended command, ends what it left behind in its group, and takes the terminal back. It says how
// the command ended and whether there was anything left.
func (c *child) cleanUp() (status syscall.WaitStatus, left bool) {
	if c.inForeground() {
		c.tty.give(syscall.Getpgrp())
	}
	c.signal(syscall.SIGTERM) // to those left; the command hears nothing any more
	c.signal(syscall.SIGCONT)
	if !c.reaped {
		for {
			if _, err := syscall.Wait4(c.pid, &c.status, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	for end := time.Now().Add(grace); c.alive(); time.Sleep(grace / 100) {
		left = true
		if time.Now().After(end) {
			c.signal(syscall.SIGKILL)
			break
		}
	}
	return c.status, left
}

// alive says whether any process of the group is there.
func (c *child) alive() bool { return !errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) }
