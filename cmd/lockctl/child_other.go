//go:build !linux

package main

import "syscall"

// childAttributes: a group of its own. Only Linux can kill the command when we are killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// await waits until the command ends or is stopped.
func (c *child) await() (event, error) {
	var status syscall.WaitStatus
	_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
	if err == nil && status.Stopped() {
		return stopped, nil
	}
	c.status, c.reaped = status, err == nil
	return ended, err
}
