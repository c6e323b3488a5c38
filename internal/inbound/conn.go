package inbound

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// settleAt is the least work that is paid for at once.
	settleAt = Burst / 2000
	// graceTime is how long the rest of a frame may take when a call is to end.
	graceTime = Burst
	// longWait is the delay above which the log tells that a connection is read later.
	longWait = Burst / 2
)

// errTooMuch ends a connection that holds too much and whose calls cannot be ended: the rest of a frame does not come,
// or the connection may not be read yet.
var errTooMuch = errors.New("too much is on its way, and the rest of a frame does not come")

// Conn is a connection with a client. Its reader waits until work is paid for, and ends calls. There is one reader at a
// time, and one writer.
type Conn struct {
	net.Conn

	intake *Intake
	tenant lock.Tenant
	owed   atomic.Int64 // nanoseconds of work that is not paid for
	told   atomic.Bool  // there may be something in endings
	wake   chan struct{}
	closed context.Context
	end    context.CancelFunc // of closed
	close  sync.Once
	grace  time.Time // of the reader: until when a frame must have ended; zero if none must
	saying []byte    // of the reader: what gRPC is told besides

	mu      sync.Mutex         // guards the fields below
	gone    bool               // this side has closed it
	called  bool               // a call began: gRPC sets no deadline any more
	streams map[uint32]*stream // that are open
	in, out frames             // of the client, and ours
	headers bool               // the client is in the middle of the headers of a call
	data    *stream            // of the frame at hand, or nil
	padded  bool               // the next byte of the frame at hand is the length of its padding
	padding int                // bytes
	ended   bool               // a message ended in the frame at hand
	touched []*stream          // by what was read last

	// Guarded by Intake.mu.
	own     scope
	endings []uint32 // calls to end
}

// Watch makes a Conn. What is read and written there must be HTTP/2, from the first byte.
func (in *Intake) Watch(c net.Conn) *Conn {
	w := &Conn{
		Conn: c, intake: in, tenant: limits.TenantAt(c.RemoteAddr()), streams: make(map[uint32]*stream),
		wake: make(chan struct{}, 1), in: frames{skip: preface},
	}
	w.closed, w.end = context.WithCancel(context.Background())
	return w
}

// addr is the address of a client, with the connection that it is of.
type addr struct {
	net.Addr

	of *Conn
}

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return addr{c.Conn.RemoteAddr(), c} }

// Closed returns a context that ends when the connection is closed whose RemoteAddr is a. For other addresses it never
// ends.
func Closed(a net.Addr) context.Context {
	if a, ok := a.(addr); ok {
		return a.of.closed
	}
	return context.Background()
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	return c.ReadBy(func() (int, error) { return c.Conn.Read(b) }, func() []byte { return b })
}

// ReadBy reads with read, which reads into the memory that buffer returns. Without a read it may put something there
// for gRPC that the client did not send.
func (c *Conn) ReadBy(read func() (int, error), buffer func() []byte) (int, error) {
	for {
		if c.told.Load() {
			if err := c.endCalls(); err != nil {
				return 0, err
			}
		}
		if len(c.saying) > 0 {
			n := copy(buffer(), c.saying)
			c.saying = c.saying[n:]
			return n, nil
		}
		n, err := read()
		switch {
		case err == nil:
			if err = c.arrived(buffer()[:n]); err != nil {
				return 0, err
			}
			return n, nil
		case n > 0 || !c.interrupted(err):
			return n, err
		}
	}
}

// interrupted says whether a read ended because calls are to end. Until there is a call, deadlines are those of gRPC.
func (c *Conn) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.called && c.grace.IsZero() {
		_ = c.SetReadDeadline(time.Time{}) // an error: it is closed
	}
	return c.called
}

// arrived counts what was read, and waits until it is paid for.
func (c *Conn) arrived(b []byte) error {
	wakeAll(c.parse(b))
	if c.owed.Load() < int64(settleAt) {
		return nil
	}
	wait := c.intake.Spend(c.tenant, time.Duration(c.owed.Swap(0)))
	if wait == 0 {
		return nil
	}
	if wait > longWait {
		c.intake.slows.Warn(c.intake.log, "a connection is read later, as its client causes work and asks for nothing",
			zap.Stringer(observe.KeyPeer, c.RemoteAddr()), zap.Duration(observe.KeyWithin, wait))
	}
	c.intake.slowed.Add(wait.Seconds())
	return c.sleep(wait)
}

// sleep waits. It fails early if the connection is closed, or if calls are to end: gRPC can hear of that only after
// what was just read, which has to wait.
func (c *Conn) sleep(d time.Duration) error {
	over := time.After(d)
	for {
		select {
		case <-over:
			return nil
		case <-c.closed.Done():
			return net.ErrClosed
		case <-c.wake:
			if c.told.Load() {
				return errTooMuch
			}
		}
	}
}

// parse goes through what was read. It returns connections that are to end calls.
func (c *Conn) parse(b []byte) (wake []woken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 && !c.gone {
		payload, rest, begins := c.in.next(b)
		switch {
		case begins:
			c.beginLocked()
		case payload != nil:
			c.payloadLocked(payload)
		}
		b = rest
	}
	for _, s := range c.touched {
		s.touched = false
		if s.arrives() || s.counted {
			wake = append(wake, c.settleLocked(s)...)
		}
	}
	clear(c.touched)
	c.touched = c.touched[:0]
	return wake
}

// endCalls has gRPC reset the calls that are to end, by window updates of 0, which HTTP/2 forbids. They fit only
// between two frames, so a frame at hand has to end soon.
func (c *Conn) endCalls() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.in.between() || c.headers {
		return c.hurryLocked()
	}
	if !c.grace.IsZero() {
		c.grace = time.Time{}
		_ = c.SetReadDeadline(c.grace)
	}
	c.intake.mu.Lock()
	ids := c.endings
	c.endings = nil
	c.told.Store(false)
	c.intake.mu.Unlock()
	for _, id := range ids {
		if s := c.streams[id]; s != nil {
			c.dropLocked(s)
			c.saying = append(c.saying, 0, 0, 4, frameWindow, 0)
			c.saying = binary.BigEndian.AppendUint32(c.saying, id)
			c.saying = append(c.saying, 0, 0, 0, 0)
		}
	}
	return nil
}

// hurryLocked gives the frame at hand a while to end.
func (c *Conn) hurryLocked() error {
	now := time.Now()
	if c.grace.IsZero() {
		c.grace = now.Add(graceTime)
	} else if !now.Before(c.grace) {
		return errTooMuch
	}
	return c.SetReadDeadline(c.grace)
}

// wakeAll wakes the readers of connections with calls to end, also readers that wait for the client.
func wakeAll(conns []woken) {
	for _, c := range conns {
		c.intake.endings.Warn(c.intake.log, "a call was ended, as its message was not there in time",
			zap.String(observe.KeyReason, reasons[c.why]), zap.Stringer(observe.KeyPeer, c.RemoteAddr()))
		select {
		case c.wake <- struct{}{}:
		default:
		}
		_ = c.SetReadDeadline(time.Unix(1, 0)) // an error: it is closed
	}
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	c.sent(b)
	return c.Conn.Write(b)
}

// sent parses what is written.
func (c *Conn) sent(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		_, rest, begins := c.out.next(b)
		if begins {
			c.answerLocked(&c.out.head)
		}
		b = rest
	}
}

func (c *Conn) owe(work time.Duration) { c.owed.Add(int64(work)) }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.close.Do(func() {
		c.end()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = true
		for _, s := range c.streams {
			c.dropLocked(s)
		}
		if work := c.owed.Swap(0); work > 0 {
			c.intake.Spend(c.tenant, time.Duration(work))
		}
	})
	return c.Conn.Close()
}
