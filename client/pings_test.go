package client_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// A busy session sends what its callers ask, and no pings that measure the connection: each would cost both sides as
// much as a request.
func TestABusySessionSendsNoPings(t *testing.T) {
	read, write := io.Pipe()
	c := dial(t, addr, client.WithDialOptions(grpc.WithContextDialer(
		func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return copiedConn{conn, write}, err
		})))
	sent := make(map[http2.FrameType]int)
	var counter sync.WaitGroup
	counter.Go(func() {
		_, _ = io.CopyN(io.Discard, read, int64(len(http2.ClientPreface)))
		for frames := http2.NewFramer(nil, read); ; {
			f, err := frames.ReadFrame()
			if err != nil {
				return
			}
			sent[f.Header().Type]++
		}
	})
	for range 20 {
		pair(t, c, "pings")
	}
	_ = write.Close()
	counter.Wait()
	if sent[http2.FrameData] < 20 || sent[http2.FramePing] > 0 {
		t.Errorf("these frames were sent: %v, want at least 20 of data and no pings", sent)
	}
}

// copiedConn copies what is sent.
type copiedConn struct {
	net.Conn
	to *io.PipeWriter
}

func (c copiedConn) Write(b []byte) (int, error) {
	_, _ = c.to.Write(b) // fails at the end
	return c.Conn.Write(b)
}

// TestClientsDoNotBeatInStep has the first heartbeats of many sessions spread over the whole interval, none later.
func TestClientsDoNotBeatInStep(t *testing.T) {
	const interval, sessions, parts = 10 * time.Second, 10_000, 10
	var sums [parts]int
	for range sessions {
		at := client.FirstBeat(interval)
		if at <= 0 || at > interval {
			t.Fatalf("the first heartbeat comes after %v", at)
		}
		sums[(at-1)*parts/interval]++
	}
	for _, sum := range sums {
		if sum < sessions/parts*3/4 {
			t.Errorf("of %d sessions so many begin in each %v: %v", sessions, interval/parts, sums)
			break
		}
	}
}

// TestWhoStoodStillLooksAtTheClockBeforeAnythingIsSent asks for something before the timers of a process that was
// stopped for longer than its session lives. A try that went to that session would have no answer.
func TestWhoStoodStillLooksAtTheClockBeforeAnythingIsSent(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		first := mustLock(t, c, "first")
		c.StandStill(30 * time.Second)
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil && s == f.streams[0] {
				t.Error("the session that has ended is asked for the second lock")
			}
			return false
		})
		if _, err := c.TryLock(t.Context(), "second"); err != nil {
			t.Error(err)
		}
		wantError(t, first.Err(), client.ErrSilent)
	})
}
