package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is our stdin, which may be a terminal or not.
type terminal struct {
	fd         int
	isTerminal bool
}

func openTerminal() terminal {
	t := terminal{fd: int(os.Stdin.Fd())}
	t.isTerminal = t.foreground() > 0
	return t
}

// foreground is the process group that reads from the terminal, 0 if there is none.
func (t terminal) foreground() int {
	pgid, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgid
}

// ours says whether that is our own group.
func (t terminal) ours() bool { return t.isTerminal && t.foreground() == syscall.Getpgrp() }

// give lets another group read from the terminal. It fails when the terminal is gone, and then that is fine.
func (t terminal) give(pgid int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid) }
