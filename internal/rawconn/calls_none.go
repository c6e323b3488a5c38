//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package rawconn

import "syscall"

const supported = false

func read(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func write(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func peek(uintptr) (int, syscall.Errno) { return 0, syscall.ENOSYS }
