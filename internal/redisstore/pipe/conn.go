package pipe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// conn is a connection. Batches are written to it in the order in which they are taken from the queue, and answered in
// that order. One goroutine writes, another one reads.
type conn struct {
	net.Conn
	self  self
	hook  Hook          // nil but in tests
	out   []byte        // only the writer uses it
	in    reader        // only the reader uses it
	slots chan struct{} // full when as many batches are under way as may be

	gone  chan struct{} // closed when it cannot be used any more
	mu    sync.Mutex    // guards the fields below
	why   error         // why it cannot be used; nil while it can
	under []*sent       // what is under way, or was when the connection was lost
}

// Hook intercepts the batches of a connection, in tests.
type Hook interface {
	// Send calls write to send a batch, or loses it. An error breaks the connection.
	Send(cmds []*redis.Cmd, write func() error) error
	// Answered is called before anybody is told the answers. An error loses them, and breaks the connection.
	Answered(cmds []*redis.Cmd) error
}

const (
	// readBuffer has room for the answers of a usual batch.
	readBuffer = 16 << 10
	// mostKept is how large a buffer for writing may be to be kept.
	mostKept = 256 << 10
)

func newConn(c net.Conn, s self, h Hook, window int) *conn {
	return &conn{
		Conn: c, self: s, hook: h, in: reader{Reader: bufio.NewReaderSize(c, readBuffer)},
		slots: make(chan struct{}, window), gone: make(chan struct{}),
	}
}

// enter waits until another batch may be sent, unless the connection is lost before.
func (c *conn) enter() bool {
	select {
	case c.slots <- struct{}{}:
		return !c.lost()
	case <-c.gone:
		return false
	}
}

func (c *conn) lost() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// fail closes the connection and returns why: the first cause counts.
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

// usable says whether something may be sent on the connection. It asks the socket itself, because the reader may not
// know yet that the server hung up. What is under way counts as sent all the same.
func (c *conn) usable() bool {
	if !c.lost() && hungUp(c.Conn) {
		_ = c.fail(io.EOF)
	}
	return !c.lost()
}

// first is the batch that is answered next, nil if none is under way.
func (c *conn) first() *sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.under) == 0 {
		return nil
	}
	return c.under[0]
}

// answered notes that the first batch was answered completely.
func (c *conn) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under = slices.Delete(c.under, 0, 1)
	c.expectLocked()
	<-c.slots
}

// expectLocked sets the time when an answer is overdue: the end of the first batch.
func (c *conn) expectLocked() {
	var end time.Time
	if len(c.under) > 0 {
		end = c.under[0].end
	}
	_ = c.SetReadDeadline(end) // it may be closed; reading says so
}

// send writes a batch, whose bytes are in c.out. If that fails, some of it may have been sent.
func (c *conn) send(s *sent) {
	c.mu.Lock()
	c.under = append(c.under, s)
	c.expectLocked()
	c.mu.Unlock()
	write := func() error {
		_ = c.SetWriteDeadline(s.end) // it may be closed; writing says so
		_, err := c.Write(c.out)
		return err
	}
	var err error
	if c.hook != nil {
		err = c.hook.Send(s.cmds(), write)
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
