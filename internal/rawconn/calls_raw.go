//go:build linux && (amd64 || arm64) && !race

package rawconn

import (
	"syscall"
	"unsafe"
)

const supported = true

func read(fd uintptr, b []byte) (int, syscall.Errno) {
	return call(syscall.SYS_RECVFROM, fd, b, syscall.MSG_DONTWAIT)
}

func write(fd uintptr, b []byte) (int, syscall.Errno) {
	return call(syscall.SYS_SENDTO, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// peek says whether there is a byte to read.
func peek(fd uintptr) (int, syscall.Errno) {
	var b [1]byte
	return call(syscall.SYS_RECVFROM, fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// call makes a system call. It must not wait, whatever somebody did to the socket: it would stop the whole program.
func call(which, fd uintptr, b []byte, flags uintptr) (int, syscall.Errno) {
	for {
		at := unsafe.Pointer(unsafe.SliceData(b)) //nolint:gosec // the kernel is told where the buffer is
		n, _, errno := syscall.RawSyscall6(which, fd, uintptr(at), uintptr(len(b)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), 0 //nolint:gosec // at most len(b)
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
