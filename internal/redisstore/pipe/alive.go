package pipe

import (
	"errors"
	"net"
	"syscall"
)

// hungUp says whether the other side of a connection has ended it. It does not wait.
func hungUp(c net.Conn) (is bool) {
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = below.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		is = n <= 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return is || err != nil
}
