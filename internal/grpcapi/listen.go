package grpcapi

import (
	"net"

	"google.golang.org/grpc/mem"

	"github.com/lockd-io/lockd/internal/rawconn"
)

// listener gives gRPC connections that cost less, see package rawconn.
type listener struct{ net.Listener }

// Accept is for gRPC.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		if raw, ok := rawconn.New(tcp).(*rawconn.Conn); ok {
			return &readyConn{Conn: raw}, nil
		}
	}
	return c, nil
}

// readyConn is a connection from which gRPC reads without having a buffer for it while it is silent. gRPC can do that
// by itself with connections of package net.
type readyConn struct {
	*rawconn.Conn

	loan loan // of the read that is under way: gRPC makes one at a time
}

// loan is a buffer of a pool.
type loan struct {
	pool mem.BufferPool
	size int
	buf  *[]byte
}

// Lend implements rawconn.Lender.
func (l *loan) Lend() []byte {
	l.buf = l.pool.Get(l.size)
	return *l.buf
}

// Back implements rawconn.Lender.
func (l *loan) Back() {
	l.pool.Put(l.buf)
	l.buf = nil
}

// ReadOnReady is what gRPC looks for in a connection. The buffer is to be put back into the pool.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	c.loan = loan{pool: pool, size: size}
	n, err = c.ReadInto(&c.loan)
	buf, c.loan = c.loan.buf, loan{}
	return buf, n, err
}
