package grpcapi_test

import (
	"bytes"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// The server waits for a silent client where it has no buffer for it. It does so with a connection of ours only as long
// as the library looks for the method by that name.
func TestASilentConnectionHasNoBuffer(t *testing.T) {
	s := start(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.srv.Serve(lis) // it says that the listener was closed
	}()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = conn.Close(), lis.Close()
		<-served
	}()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 4<<20)
	waits := []byte("grpcapi.(*readyConn).ReadOnReady")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if bytes.Contains(stacks[:runtime.Stack(stacks, true)], waits) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody waits there")
		}
	}
}
