//go:build unix

package pipe

import (
	"errors"
	"net"
	"syscall"
)

// hungUp says whether the other side of a connection, on which nothing is under way, has ended it. It does not wait.
func hungUp(c net.Conn) (is bool) {
	secure := false
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		c, secure = below.NetConn(), true
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
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		default: // the end, or an error; or what nobody asked for, which TLS may send by itself
			is = n <= 0 || !secure
		}
	})
	return is || err != nil
}
