package grpcapi

import (
	"errors"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"

	"github.com/lockd-io/lockd/internal/inbound"
)

// listener gives gRPC connections on which what is said in clear text is bounded by an Intake. Over TLS it is bounded
// after the handshake, see telling.
type listener struct {
	net.Listener
	intake *inbound.Intake
}

// Accept is for gRPC.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	bounded := l.intake.Watch(c)
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return &readyConn{bounded, raw}, nil
		}
	}
	return bounded, nil
}

// readyConn is a connection from which gRPC reads without having a buffer for it while it is silent. gRPC can do that
// by itself with connections of package net only. It reads one at a time.
type readyConn struct {
	*inbound.Conn
	raw syscall.RawConn
}

// ReadOnReady is what gRPC asks a connection for. It puts the buffer back into the pool.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	lent := func() []byte {
		if buf == nil {
			buf = pool.Get(size)
		}
		return *buf
	}
	back := func() {
		if buf != nil {
			pool.Put(buf)
			buf = nil
		}
	}
	read := func() (n int, err error) {
		closed := c.raw.Read(func(fd uintptr) (over bool) {
			for n, err = syscall.Read(int(fd), lent()); errors.Is(err, syscall.EINTR); {
				n, err = syscall.Read(int(fd), lent())
			}
			if errors.Is(err, syscall.EAGAIN) {
				back() // and wait in the poller
				return false
			}
			return true
		})
		switch {
		case closed != nil:
			return 0, closed
		case n == 0 && err == nil:
			return 0, io.EOF
		}
		return n, err
	}
	if n, err = c.ReadBy(read, lent); err != nil {
		back()
		return nil, 0, err
	}
	return buf, n, nil
}
