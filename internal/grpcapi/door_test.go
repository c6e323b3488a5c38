package grpcapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
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
			if err != nil {
				t.Fatal(err)
			}
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
