package client_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/client"
)

// A busy session sends what its callers ask, and no pings that measure the connection: each would cost both sides as
// much as a request.
func TestABusySessionSendsNoPings(t *testing.T) {
	const preface, ping = 24, 6 // of HTTP/2: what the client sends first, and the type of a frame
	sent := &frameCounter{skip: preface, of: make(map[byte]int)}
	c := dial(t, addr, client.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn,
		error,
	) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return countedConn{conn, sent}, err
	})))
	for range 20 {
		l := mustLock(t, c, "pings")
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	if sent.of[0] < 20 {
		t.Fatalf("%d frames of data were seen, want at least 20: %v", sent.of[0], sent.of)
	}
	if n := sent.of[ping]; n > 0 {
		t.Errorf("%d pings were sent, want none", n)
	}
}

type countedConn struct {
	net.Conn
	sent *frameCounter
}

func (c countedConn) Write(b []byte) (int, error) {
	c.sent.count(b)
	return c.Conn.Write(b)
}

// frameCounter counts frames by their type.
type frameCounter struct {
	mu     sync.Mutex // guards the fields below
	skip   int        // bytes before the next header
	header []byte     // what came of it
	of     map[byte]int
}

func (f *frameCounter) count(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const size = 9 // of a header: three bytes of length, the type, flags, the stream
	for len(b) > 0 {
		if n := min(f.skip, len(b)); n > 0 {
			f.skip, b = f.skip-n, b[n:]
			continue
		}
		n := min(size-len(f.header), len(b))
		f.header, b = append(f.header, b[:n]...), b[n:]
		if h := f.header; len(h) == size {
			f.of[h[3]]++
			f.skip, f.header = int(h[0])<<16|int(h[1])<<8|int(h[2]), nil
		}
	}
}
