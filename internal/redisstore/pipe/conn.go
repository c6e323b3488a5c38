package pipe

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// conn is a connection that was made. Batches go over it in the order in which they are taken from the queue, and are
// answered in that order. Who sends one holds writing while it takes and writes it, and goes on to reading before it
// lets go of writing: so there are two under way at most, one being read and one behind it.
type conn struct {
	net.Conn
	self self
	hook Hook // nil but in tests

	writing sync.Mutex // guards out, and what is written
	out     []byte

	reading sync.Mutex // guards in, and what is read; locked after writing
	in      reader

	gone chan struct{} // closed when it cannot be used any more
	mu   sync.Mutex    // guards the fields below
	why  error         // it cannot; nil while it can
	debt bool          // something was sent on it that was not answered
}

// Hook is what happens to the batches of a connection, in tests.
type Hook interface {
	// Send writes a batch, or does not. An error breaks the connection.
	Send(cmds []*redis.Cmd, write func() error) error
	// Answered comes before anybody is told the answers. An error has them lost, and breaks the connection.
	Answered(cmds []*redis.Cmd) error
}

const (
	// readBuffer has the answers of a usual batch.
	readBuffer = 16 << 10
	// mostKept is how much of what was written is kept to be used again.
	mostKept = 256 << 10
)

func newConn(c net.Conn, s self, h Hook) *conn {
	return &conn{
		Conn: c, self: s, hook: h, in: reader{Reader: bufio.NewReaderSize(c, readBuffer)}, gone: make(chan struct{}),
	}
}

// fail ends it. Its first cause counts. It returns that.
func (c *conn) fail(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		if errors.Is(why, os.ErrDeadlineExceeded) {
			why = fmt.Errorf("%w: %w", ErrOpTimeout, why)
		}
		c.why = why
		_ = c.Close() // it can only be closed already
		close(c.gone)
	}
	return c.why
}

// owe notes that something was sent that was not answered.
func (c *conn) owe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.debt = true
}

// owes says whether that was noted.
func (c *conn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.debt
}

// usable says whether something may be sent on it.
func (c *conn) usable() bool {
	if c.reading.TryLock() { // nothing is under way
		if c.in.Buffered() > 0 {
			_ = c.fail(fmt.Errorf("%w: nobody asked for it", errMalformed))
		} else if hungUp(c.Conn) {
			_ = c.fail(ErrNotConnected)
		}
		c.reading.Unlock()
	}
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// write sends what is in out. If that fails, some of it may have been sent.
func (c *conn) write(cmds func() []*redis.Cmd, end time.Time) {
	if len(c.out) == 0 {
		return
	}
	write := func() error {
		_ = c.SetWriteDeadline(end) // it may be closed; writing says so
		_, err := c.Write(c.out)
		return err
	}
	var err error
	if c.hook != nil {
		err = c.hook.Send(cmds(), write)
	} else {
		err = write()
	}
	if err != nil {
		_ = c.fail(err)
	}
	if cap(c.out) > mostKept {
		c.out = nil
	}
}
