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
			return newReadyConn(bounded, raw), nil
		}
	}
	return bounded, nil
}

// readyConn is a connection from which gRPC reads without having a buffer for it while it is silent. gRPC can do that
// by itself with connections of package net only. It reads one at a time.
type readyConn struct {
	*inbound.Conn

	raw  syscall.RawConn
	pool mem.BufferPool
	size int
	buf  *[]byte // nil while there is nothing to read
	n    int
	err  error

	try    func(fd uintptr) (over bool)
	read   func() (int, error)
	buffer func() []byte
}

func newReadyConn(c *inbound.Conn, raw syscall.RawConn) *readyConn {
	r := &readyConn{Conn: c, raw: raw}
	r.try, r.read, r.buffer = r.once, r.wait, r.lent // made here once, and not for each read
	return r
}

// ReadOnReady is what gRPC looks for in a connection. It puts the buffer back into the pool.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	c.size, c.pool = size, pool
	n, err = c.ReadBy(c.read, c.buffer)
	if err != nil {
		c.back()
		n = 0
	}
	buf, c.buf, c.pool = c.buf, nil, nil
	return buf, n, err
}

// lent is the buffer.
func (c *readyConn) lent() []byte {
	if c.buf == nil {
		c.buf = c.pool.Get(c.size)
	}
	return *c.buf
}

func (c *readyConn) back() {
	if c.buf != nil {
		c.pool.Put(c.buf)
		c.buf = nil
	}
}

// wait waits in the poller until something was read.
func (c *readyConn) wait() (int, error) {
	if err := c.raw.Read(c.try); err != nil {
		return 0, err
	}
	if c.n == 0 && c.err == nil {
		return 0, io.EOF
	}
	return c.n, c.err
}

// once reads what there is.
func (c *readyConn) once(fd uintptr) (over bool) {
	c.n, c.err = syscall.Read(int(fd), c.lent())
	for errors.Is(c.err, syscall.EINTR) {
		c.n, c.err = syscall.Read(int(fd), c.lent())
	}
	if errors.Is(c.err, syscall.EAGAIN) {
		c.back()
		return false
	}
	return true
}
