//go:build (linux && (race || !(amd64 || arm64))) || darwin || freebsd || netbsd || openbsd

package rawconn

import (
	"errors"
	"syscall"
)

// Elsewhere the calls are those of package syscall. The race detector looks into them, so it has them as well.

const supported = true

func read(fd uintptr, b []byte) (int, syscall.Errno) {
	return told(func() (int, error) { return syscall.Read(int(fd), b) })
}

func write(fd uintptr, b []byte) (int, syscall.Errno) {
	return told(func() (int, error) { return syscall.Write(int(fd), b) })
}

// peek says whether there is a byte to read.
func peek(fd uintptr) (int, syscall.Errno) {
	var b [1]byte
	return told(func() (int, error) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n, err
	})
}

func told(call func() (int, error)) (int, syscall.Errno) {
	for {
		n, err := call()
		errno, _ := errors.AsType[syscall.Errno](err)
		switch errno {
		case 0:
			return n, 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
