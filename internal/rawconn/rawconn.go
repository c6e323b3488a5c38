// Package rawconn has TCP connections that read and write without a word to Go's scheduler.
//
// Before a system call Go tells its scheduler, which gives the processor to another thread if the call takes long.
// Reads and writes of a connection do not: what waits is the poller. Yet where processors are short, another process
// may have the processor in the middle of a call, and then it takes longer than 20 us, after which the scheduler looks.
// So the scheduler goes on to look every 20 us, and moves the work of the program between threads. With many small
// messages that takes a fifth of lockd's processor time, see docs/decisions.
//
// The price: while such a call lasts, some microseconds, no other goroutine has its processor.
package rawconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Conn is such a connection. It is no syscall.Conn: who asks for that makes system calls of his own. Alive tells what
// they are made for.
type Conn struct {
	net.Conn // for all but reads and writes

	raw           syscall.RawConn
	reads, writes calls
}

// Lender has the buffer for a read.
type Lender interface {
	// Lend is called when there may be something to read.
	Lend() []byte
	// Back is called if nothing was read.
	Back()
}

// Socket is a connection of the system, with nothing like TLS in between.
type Socket interface {
	net.Conn
	syscall.Conn
}

// New makes a Conn of a connection. It is the connection itself on systems that have no such calls.
func New(s Socket) net.Conn {
	raw, err := s.SyscallConn()
	if err != nil || !supported {
		return s
	}
	c := &Conn{Conn: s, raw: raw}
	c.reads.init(read, raw.Read)
	c.writes.init(write, raw.Write)
	return c
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	return c.read(b, nil)
}

// ReadInto is Read with a buffer, not an empty one, that is asked for late: who waits for something needs none.
func (c *Conn) ReadInto(l Lender) (n int, err error) { return c.read(nil, l) }

func (c *Conn) read(b []byte, l Lender) (int, error) {
	c.reads.mu.Lock()
	defer c.reads.mu.Unlock()
	n, err := c.reads.makeLocked(b, l)
	switch {
	case err != nil:
		return 0, c.told("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// mostAtOnce is what one call writes at most. The kernel copies it, and nothing else can have the processor meanwhile.
const mostAtOnce = 64 << 10

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (done int, err error) {
	c.writes.mu.Lock()
	defer c.writes.mu.Unlock()
	for done < len(b) {
		n, err := c.writes.makeLocked(b[done:min(len(b), done+mostAtOnce)], nil)
		if err != nil {
			return done, c.told("write", err)
		}
		done += n
	}
	return done, nil
}

// errUnasked: the other side said something that it was not asked for.
var errUnasked = errors.New("there is something to read")

// Alive returns nil if the connection is open and there is nothing to read. It does not wait.
func (c *Conn) Alive() error {
	var n int
	var failure syscall.Errno
	err := c.raw.Control(func(fd uintptr) { n, failure = peek(fd) })
	switch {
	case err != nil:
		return err
	case failure == syscall.EAGAIN:
		return nil
	case failure != 0:
		return c.told("read", failure)
	case n == 0:
		return io.EOF
	}
	return errUnasked
}

// told is an error as those of package net are.
func (c *Conn) told(what string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err // it is one
	}
	from, to := c.LocalAddr(), c.RemoteAddr()
	return &net.OpError{Op: what, Net: to.Network(), Source: from, Addr: to, Err: os.NewSyscallError(what, errno)}
}

// calls are the reads of a connection, or its writes.
type calls struct {
	call func(fd uintptr, b []byte) (int, syscall.Errno)
	wait func(try func(fd uintptr) bool) error // tries until it is over, and waits in the poller before each other try
	try  func(fd uintptr) bool

	mu    sync.Mutex // held while a caller reads or writes, and waits for that; guards the fields below
	buf   []byte
	from  Lender // has the buffer, unless it is nil
	n     int
	errno syscall.Errno
}

func (c *calls) init(
	call func(fd uintptr, b []byte) (int, syscall.Errno), wait func(try func(fd uintptr) bool) error,
) {
	c.call, c.wait, c.try = call, wait, c.once
}

func (c *calls) once(fd uintptr) (over bool) {
	b := c.buf
	if c.from != nil {
		b = c.from.Lend()
	}
	c.n, c.errno = c.call(fd, b)
	if c.from != nil && c.n == 0 {
		c.from.Back()
	}
	return c.errno != syscall.EAGAIN
}

// makeLocked makes a call that does something. mu is held.
func (c *calls) makeLocked(b []byte, from Lender) (n int, err error) {
	c.buf, c.from, c.n, c.errno = b, from, 0, 0
	err = c.wait(c.try)
	c.buf, c.from = nil, nil
	if err == nil && c.errno != 0 {
		err = c.errno
	}
	return c.n, err
}
