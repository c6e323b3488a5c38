package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes: a group of its own, and the kernel kills the command when we die in whatever way.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// cldDumped is the last of the codes that tell of an end, 1 to 3; those above tell of stops.
const cldDumped = 3

// await waits until the command ends or is stopped. It leaves an ended one for cleanUp to reap: until then its id,
// which is the group's, cannot be given to another process.
func (c *child) await() (event, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
	if err != nil || info.Code <= cldDumped {
		return ended, err
	}
	// Take the stop, so that it is not told again.
	return stopped, unix.Waitid(unix.P_PID, c.pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
}
