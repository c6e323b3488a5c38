package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// The HTTP/2 settings of lockd, in internal/grpcapi/server.go.
const (
	streamWindow = 128 << 10
	connWindow   = 1 << 20
	ioBuffer     = 8 << 10
)

// echo answers each Acquire with a Granted that is as long as lockd's, and does nothing else.
type echo struct {
	lockdv1.UnimplementedSessionServiceServer
}

// Session implements the service.
func (echo) Session(stream lockdv1.SessionService_SessionServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has left
		}
		if err := stream.Send(granted(m)); err != nil {
			return err
		}
	}
}

func granted(m *lockdv1.SessionRequest) *lockdv1.SessionResponse {
	hold := &lockdv1.Hold{
		Name: m.GetAcquire().GetName(), Kind: m.GetAcquire().GetKind(), Fence: uint64(time.Now().UnixMicro()), AcquiredBy: m.GetRequestId(),
	}
	validity := &lockdv1.Validity{
		Remaining: durationpb.New(leaseTTL - time.Millisecond), Anchor: m.GetRequestId(), AnchorAge: durationpb.New(time.Millisecond),
	}
	return &lockdv1.SessionResponse{RequestId: m.GetRequestId(), Message: &lockdv1.SessionResponse_Granted{
		Granted: &lockdv1.Granted{Holds: []*lockdv1.Hold{hold}, Validity: validity, HoldCount: 1, Auto: true},
	}}
}

// serveEcho is the echo server. It writes its address to stdout and serves until it is killed.
func serveEcho() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer))
	lockdv1.RegisterSessionServiceServer(s, echo{})
	fmt.Println(lis.Addr())
	return s.Serve(lis)
}

// echoCommand is the argument with which this program is the echo server.
const echoCommand = "echo"

// startEcho runs this program once more, as the echo server.
func startEcho() (*process, error) {
	bin, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, echoCommand)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := launch(cmd, func() {})
	if err != nil {
		return nil, fmt.Errorf("start the echo server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("the echo server told no address: %w", err)
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// echoing is a locker whose lock is one message to the echo server and its answer.
func echoing(server *process) func(env, int) (locker, error) {
	return func(env, int) (locker, error) {
		conn, err := grpc.NewClient(server.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow))
		if err != nil {
			return nil, err
		}
		stream, err := lockdv1.NewSessionServiceClient(conn).Session(context.Background())
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		var id uint64
		return funcs{closeFunc: func() { _ = conn.Close() }, lockFunc: func(_ context.Context, _ int, name string) (unlockFunc, error) {
			id++
			err := stream.Send(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Acquire{
				Acquire: &lockdv1.Acquire{Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
			}})
			if err == nil {
				_, err = stream.Recv()
			}
			return func(context.Context) error { return nil }, err
		}}, nil
	}
}
