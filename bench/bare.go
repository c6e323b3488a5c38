package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

// bare is a link that is a client of gRPC, with the SDK's settings and codec, and nothing else: what no client on gRPC
// can do without.
type bare struct {
	grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse]
	conn *grpc.ClientConn
}

// The settings of the SDK, in client/options.go.
const clientWindow = 512 << 10

func connectBare(addr string, first *lockdv1.SessionRequest) (link, error) {
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithStaticStreamWindowSize(clientWindow),
		grpc.WithStaticConnWindowSize(clientWindow))
	if err != nil {
		return nil, err
	}
	l := &bare{conn: conn}
	l.BidiStreamingClient, err = lockdv1.NewSessionServiceClient(conn).Session(
		context.Background(), grpc.ForceCodecV2(wire.New()))
	if err != nil {
		l.close()
		return nil, err
	}
	_ = l.Send(first) // receive tells why it fails
	return l, nil
}

func (l *bare) send(m *lockdv1.SessionRequest) error { return l.Send(m) }

func (l *bare) receive() (*lockdv1.SessionResponse, error) { return l.Recv() }

func (l *bare) close() { go func() { _ = l.conn.Close() }() }
