package rawconn

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// pipe is both ends of a connection.
func pipe(t testing.TB) (here *Conn, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	here, ok := New(c.(Socket)).(*Conn)
	if !ok {
		t.Skip("this system has no such connections")
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// The suite that tells whether something is a net.Conn: concurrent calls, deadlines, closing.
func TestItIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		here, there := pipe(t)
		return here, New(there.(Socket)), func() { _, _ = here.Close(), there.Close() }, nil
	})
}

// A write that the other side takes in pieces is whole, also beside another one.
func TestWritesAreWhole(t *testing.T) {
	here, there := pipe(t)
	const size = 3 << 20
	var wg sync.WaitGroup
	for _, letter := range []byte("ab") {
		wg.Go(func() {
			if n, err := here.Write(bytes.Repeat([]byte{letter}, size)); n != size || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // both wait for room
	got := make([]byte, 2*size)
	if _, err := io.ReadFull(there, got); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if first := got[0]; bytes.IndexByte(got[:size], 'a'+'b'-first) >= 0 {
		t.Error("two writes were mixed")
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	here, there := pipe(t)
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent) // it cannot fail
	go func() {
		_, _ = there.Write(sent) // what is read tells
		_ = there.Close()
	}()
	got, err := io.ReadAll(here)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes of %d: %v", len(got), len(sent), err)
	}
}

// counter lends one buffer and counts.
type counter struct {
	mu         sync.Mutex
	lent, back int
	buf        [8]byte
}

func (c *counter) Lend() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent++
	return c.buf[:]
}

func (c *counter) Back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back++
}

func (c *counter) out() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lent - c.back
}

// Who waits has no buffer.
func TestABufferIsAskedForLate(t *testing.T) {
	here, there := pipe(t)
	var c counter
	done := make(chan struct{})
	go func() {
		defer close(done)
		if n, err := here.ReadInto(&c); n != 2 || err != nil || string(c.buf[:n]) != "hi" {
			t.Errorf("read %d %q: %v", n, c.buf, err)
		}
		if out := c.out(); out != 1 {
			t.Errorf("%d buffers are out after a read, want 1", out)
		}
		if _, err := here.ReadInto(&c); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	}()
	time.Sleep(20 * time.Millisecond)
	if out := c.out(); out != 0 {
		t.Errorf("%d buffers are out while nobody says anything", out)
	}
	if _, err := there.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	_ = there.Close()
	<-done
	if out := c.out(); out != 1 {
		t.Errorf("%d buffers are out at the end, want that of the first read", out)
	}
}

func TestALateReadEndsWithItsDeadlineAndWithTheConnection(t *testing.T) {
	here, _ := pipe(t)
	var c counter
	_ = here.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := here.ReadInto(&c)
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the deadline: %v", err)
	}
	_ = here.SetReadDeadline(time.Time{})
	time.AfterFunc(10*time.Millisecond, func() { _ = here.Close() })
	if _, err := here.ReadInto(&c); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after it was closed: %v", err)
	}
	if out := c.out(); out != 0 {
		t.Errorf("%d buffers are out", out)
	}
}

func TestAlive(t *testing.T) {
	eventually := func(c *Conn, want error) {
		t.Helper()
		var err error
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if err = c.Alive(); errors.Is(err, want) {
				return
			}
		}
		t.Errorf("%v, want %v", err, want)
	}
	here, there := pipe(t)
	for range 3 {
		if err := here.Alive(); err != nil {
			t.Errorf("a silent one: %v", err)
		}
	}
	_, _ = there.Write([]byte("x")) // what is found tells
	eventually(here, errUnasked)
	var b [4]byte
	if n, err := here.Read(b[:]); n != 1 || err != nil {
		t.Errorf("what was said is gone: %d, %v", n, err)
	}
	if err := here.Alive(); err != nil {
		t.Errorf("after that was read: %v", err)
	}
	_ = there.Close()
	eventually(here, io.EOF)
	_ = here.Close()
	eventually(here, net.ErrClosed)
}

// A connection that was cut has the errors of package net.
func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	here, there := pipe(t)
	_ = there.(*net.TCPConn).SetLinger(0)
	_ = there.Close() // it is cut
	var op *net.OpError
	if _, err := here.Read(make([]byte, 1)); !errors.As(err, &op) || op.Op != "read" || op.Addr == nil {
		t.Errorf("a read: %#v", err)
	}
	var err error
	for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); {
		_, err = here.Write([]byte("x"))
	}
	if !errors.As(err, &op) || op.Op != "write" {
		t.Errorf("a write: %#v", err)
	}
}

// A message there and back costs no allocation.
func TestReadsAndWritesAllocateNothing(t *testing.T) {
	here, there := pipe(t)
	b := []byte("x")
	if n := testing.AllocsPerRun(100, func() {
		_, _ = there.Write(b)
		_, _ = here.Read(b)
		_, _ = here.Write(b)
		_, _ = there.Read(b)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
