package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

// Metadata stays in memory for as long as its stream lives, and a connection may have a thousand streams.
func TestMetadataIsBounded(t *testing.T) {
	s := start(t)
	health := grpc_health_v1.NewHealthClient(s.conn)
	for size, want := range map[int]codes.Code{8 << 10: codes.OK, 17 << 10: codes.Internal, 1 << 20: codes.Internal} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-much", strings.Repeat("~", size))
		_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) != want {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
	}
}

// Whoever connects and says nothing, or little, is sent away after a time.
func TestWhoSaysNothingIsSentAway(t *testing.T) {
	const connectTimeout = 21 * time.Second // and a second for what the server says before it goes
	inBubble(t, func(s *server) {
		lis := bufconn.Listen(1 << 10)
		served := make(chan error, 1)
		go func() { served <- s.srv.Serve(lis) }()
		defer func() {
			_ = lis.Close()
			if err := <-served; err == nil {
				t.Error("nobody said that the listener was closed")
			}
		}()
		for _, said := range []string{"", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
			conn, err := lis.Dial()
			must(t, err)
			began := time.Now()
			go func() { _, _ = io.WriteString(conn, said) }()
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%q: %v", said, err)
			}
			if took := time.Since(began); took > connectTimeout {
				t.Errorf("%q: stayed for %v", said, took)
			}
			_ = conn.Close()
		}
	})
}

// Whoever is told to stop at once was not in trouble.
func TestStopMayComeBeforeServe(t *testing.T) {
	inBubble(t, func(s *server) {
		s.srv.Stop(context.Background())
		for what, serve := range map[string]func(net.Listener) error{
			"Serve": s.srv.Serve, "ServeAdmin": s.srv.ServeAdmin,
		} {
			if err := serve(bufconn.Listen(1 << 10)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// The server waits for a silent client where it has no buffer for it. It does so with a connection of ours only as long
// as the library looks for the method by that name.
func TestASilentConnectionHasNoBuffer(t *testing.T) {
	s := start(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.srv.Serve(lis) // it says that the listener was closed
	}()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() {
		_, _ = conn.Close(), lis.Close()
		<-served
	}()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 4<<20)
	waits := []byte("grpcapi.(*readyConn).ReadOnReady")
	harness.Until(t, "somebody waits there", func() bool {
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], waits)
	})
}

// Unary calls wait for their turn with their messages in memory, so that these are small.
func TestTheMessageOfAUnaryCallIsSmall(t *testing.T) {
	inBubble(t, func(s *server) {
		locks := lockdv1.NewLockServiceClient(s.conn)
		_, err := locks.Acquire(s.t.Context(), &lockdv1.AcquireRequest{
			Name: "n", Lease: seconds(1), Annotation: strings.Repeat("x", 100<<10),
		})
		if st := status.Convert(err); st.Code() != codes.ResourceExhausted || reasonOf(st) != "FRAME_TOO_LARGE" {
			t.Errorf("a large message got %v", err)
		}
		if _, err := locks.Acquire(s.t.Context(), &lockdv1.AcquireRequest{
			Name: strings.Repeat("n", 512), Lease: seconds(1), Annotation: strings.Repeat("x", 4096),
		}); err != nil {
			t.Errorf("the largest that is allowed got %v", err)
		}
	})
}

// TestStreamsWithoutOpenAreBounded begins streams and says nothing on them. They count as sessions of their address
// until the server has waited for Open long enough.
func TestStreamsWithoutOpenAreBounded(t *testing.T) {
	inBubble(t, func(s *server) {
		for range 100 { // as many as one address may have
			s.raw()
		}
		synctest.Wait()
		for range 3 {
			c := s.raw()
			_ = c.Send(openWith(&lockdv1.Open{})) // the stream may be over already
			if got := reasonOf(status.Convert(c.end())); got != "QUOTA_SESSIONS_PER_ADDRESS" {
				t.Errorf("one stream too many: got %q", got)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.open(&lockdv1.Open{})
	})
}

func TestOpenAtTheLastMomentLeavesNoSessionBehind(t *testing.T) {
	inBubble(t, func(s *server) {
		for range 200 {
			c := s.raw()
			synctest.Wait()
			time.Sleep(5 * time.Second) // the server stops to wait at this moment, too
			_ = c.Send(openWith(&lockdv1.Open{}))
			_ = c.Send(acquire(1, &lockdv1.Acquire{Name: "job"}))
			_ = c.CloseSend()
			_ = c.end()
			synctest.Wait()
			if n := len(s.b.Sessions("", 10)); n != 0 {
				s.t.Fatalf("%d sessions without a stream are left", n)
			}
		}
	})
}
