package grpcapi

import (
	"net"

	"google.golang.org/grpc/mem"

	"github.com/lockd-io/lockd/internal/inbound"
	"github.com/lockd-io/lockd/internal/rawconn"
)

// listener gives gRPC connections that cost less, see package rawconn. What is said there in clear text is bounded by
// an Intake; over TLS it is bounded after the handshake, see telling.
type listener struct {
	net.Listener
	intake *inbound.Intake // nil with TLS
}

// Accept is for gRPC.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		c = rawconn.New(tcp)
	}
	raw, ready := c.(*rawconn.Conn)
	switch {
	case l.intake == nil:
		return c, nil
	case ready:
		return newReadyConn(l.intake.Watch(raw), raw), nil
	}
	return l.intake.Watch(c), nil
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

// lent is the buffer.
func (l *loan) lent() []byte {
	if l.buf == nil {
		l.Lend()
	}
	return *l.buf
}

// Back implements rawconn.Lender.
func (l *loan) Back() {
	l.pool.Put(l.buf)
	l.buf = nil
}

// readyConn is a connection from which gRPC reads without having a buffer for it while it is silent. gRPC can do that
// by itself with connections of package net.
type readyConn struct {
	*inbound.Conn

	raw    *rawconn.Conn
	loan   loan // of the read that is under way: gRPC makes one at a time
	read   func() (int, error)
	buffer func() []byte
}

func newReadyConn(c *inbound.Conn, raw *rawconn.Conn) *readyConn {
	r := &readyConn{Conn: c, raw: raw}
	r.read, r.buffer = func() (int, error) { return r.raw.ReadInto(&r.loan) }, r.loan.lent
	return r
}

// ReadOnReady is what gRPC looks for in a connection. The buffer is to be put back into the pool.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	c.loan = loan{pool: pool, size: size}
	n, err = c.ReadBy(c.read, c.buffer)
	if err != nil && c.loan.buf != nil {
		c.loan.Back()
		n = 0
	}
	buf, c.loan = c.loan.buf, loan{}
	return buf, n, err
}
