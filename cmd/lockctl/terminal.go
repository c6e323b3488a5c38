package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the descriptor of our stdin, which may be a terminal or not.
type terminal int

func openTerminal() terminal { return terminal(os.Stdin.Fd()) }

// foreground is the process group that reads from the terminal, 0 if there is none.
func (t terminal) foreground() int {
	pgid, err := unix.IoctlGetInt(int(t), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgid
}

// ours says whether our own group is in the foreground.
func (t terminal) ours() bool { return t.foreground() == syscall.Getpgrp() }

// give lets another group read from the terminal. It may fail when the terminal is gone: then nothing is to be given.
func (t terminal) give(pgid int) { _ = unix.IoctlSetPointerInt(int(t), unix.TIOCSPGRP, pgid) }
