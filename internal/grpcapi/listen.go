package grpcapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"

	"github.com/lockd-io/lockd/internal/inbound"
)

// listener gives gRPC connections whose clear text an Intake bounds. Over TLS the Intake bounds them after the
// handshake, see telling.
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
	bounded := l.intake.Watch(&greeted{Conn: c})
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return &readyConn{bounded, raw}, nil
		}
	}
	return bounded, nil
}

// greeted is a connection on which the server says nothing before the client has spoken. It answers a client that
// speaks HTTP/1.1 in HTTP/1.1; gRPC would send that client some bytes of HTTP/2 and hang up.
type greeted struct {
	net.Conn
	held  []byte // what gRPC wrote before the client spoke
	spoke bool   // set before there is more than one goroutine
}

// errHTTP is what gRPC hears of a client that speaks HTTP/1.1.
var errHTTP = errors.New("the client speaks HTTP/1.1")

const wrongAddress = `{"code":12,"message":"gRPC is spoken at this address: HTTP/JSON is spoken at http_listen"}` + "\n"

// Read implements net.Conn.
func (g *greeted) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if g.spoke || n == 0 {
		return n, err
	}
	g.spoke = true
	if verb := b[:min(n, len(preface))]; preface[:len(verb)] != string(verb) && isVerb(verb) {
		_, _ = fmt.Fprintf(g.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
			"Connection: close\r\n\r\n%s", len(wrongAddress), wrongAddress)
		return 0, errHTTP
	}
	_, err = g.Conn.Write(g.held)
	g.held = nil
	return n, err
}

// preface is the beginning of HTTP/2's preface, with which no request of HTTP/1.1 begins.
const preface = "PRI "

// isVerb says whether a request of HTTP/1.1 may begin with b.
func isVerb(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return (r < 'A' || r > 'Z') && r != ' ' }) < 0
}

// Write implements net.Conn.
func (g *greeted) Write(b []byte) (int, error) {
	if !g.spoke {
		g.held = append(g.held, b...)
		return len(b), nil
	}
	return g.Conn.Write(b)
}

// readyConn is a connection for which gRPC needs no buffer while it is silent. By itself gRPC can do that only with
// connections of package net. There is one reader at a time.
type readyConn struct {
	*inbound.Conn
	raw syscall.RawConn
}

// ReadOnReady is what gRPC asks a connection for. gRPC returns buf to the pool.
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
