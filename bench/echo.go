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
	"github.com/lockd-io/lockd/api/wire"
)

// The HTTP/2 settings of lockd, in internal/grpcapi/server.go.
const (
	streamWindow = 128 << 10
	connWindow   = 1 << 20
	ioBuffer     = 8 << 10
)

// echo answers each Acquire and each Release with messages that are as long as lockd's, and does nothing else.
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
		if err := stream.Send(answerTo(m)); err != nil {
			return err
		}
	}
}

func answerTo(m *lockdv1.SessionRequest) *lockdv1.SessionResponse {
	if m.GetRelease() != nil {
		return &lockdv1.SessionResponse{RequestId: m.GetRequestId(), Message: &lockdv1.SessionResponse_Released{
			Released: &lockdv1.Released{},
		}}
	}
	hold := &lockdv1.Hold{
		Name: m.GetAcquire().GetName(), Kind: m.GetAcquire().GetKind(), Fence: uint64(time.Now().UnixMicro()),
		AcquiredBy: m.GetRequestId(),
	}
	validity := &lockdv1.Validity{
		Remaining: durationpb.New(leaseTTL - time.Millisecond), Anchor: m.GetRequestId(),
		AnchorAge: durationpb.New(time.Millisecond),
	}
	return &lockdv1.SessionResponse{RequestId: m.GetRequestId(), Message: &lockdv1.SessionResponse_Granted{
		Granted: &lockdv1.Granted{Holds: []*lockdv1.Hold{hold}, Validity: validity, HoldCount: 1, Auto: true},
	}}
}

// serveBare serves sessions with lockd's settings of gRPC, and nothing else. It writes its address to stdout and serves
// until it is killed.
func serveBare(sessions lockdv1.SessionServiceServer) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer), grpc.ForceServerCodecV2(wire.New()))
	lockdv1.RegisterSessionServiceServer(s, sessions)
	fmt.Println(lis.Addr())
	return s.Serve(lis)
}

// echoCommand is the argument with which this program is the echo server.
const echoCommand = "echo"

// startBare runs this program once more, and waits for its first line, which is the address of a server.
func startBare(args ...string) (*process, error) {
	bin, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := launch(cmd, func() {})
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", args, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("%q did not begin: %w", args, err)
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// echoing has an echo server, or a relay, of its own and some connections to it. A lock is one message and its answer,
// an unlock another.
type echoing struct {
	server  *process
	conns   []*grpc.ClientConn
	streams []lockdv1.SessionService_SessionClient
	ids     []uint64
}

// echoWith is an echo server with so many connections, one for each caller.
func echoWith(connections int) func(env, int) (locker, error) {
	return bareWith(connections, func(env) []string { return []string{echoCommand} })
}

// bareWith is this program as a server, with some arguments.
func bareWith(connections int, args func(env) []string) func(env, int) (locker, error) {
	return func(all env, _ int) (locker, error) {
		server, err := startBare(args(all)...)
		if err != nil {
			return nil, err
		}
		e := &echoing{server: server, ids: make([]uint64, connections)}
		for range connections {
			if err := e.dial(); err != nil {
				e.close()
				return nil, err
			}
		}
		return e, nil
	}
}

func (e *echoing) dial() error {
	conn, err := grpc.NewClient(e.server.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow))
	if err != nil {
		return err
	}
	e.conns = append(e.conns, conn)
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(context.Background(), grpc.ForceCodecV2(wire.New()))
	e.streams = append(e.streams, stream)
	return err
}

func (e *echoing) lock(_ context.Context, caller int, name string) (unlockFunc, error) {
	got, err := e.ask(caller, &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{
		Acquire: &lockdv1.Acquire{Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
	}})
	if err != nil {
		return nil, err
	}
	fence := got.GetGranted().GetHolds()[0].GetFence()
	return func(context.Context) error {
		_, err := e.ask(caller, &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{
			Release: &lockdv1.Release{Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Fence: fence},
		}})
		return err
	}, nil
}

func (e *echoing) ask(caller int, m *lockdv1.SessionRequest) (*lockdv1.SessionResponse, error) {
	e.ids[caller]++
	m.RequestId = e.ids[caller]
	if err := e.streams[caller].Send(m); err != nil {
		return nil, err
	}
	return e.streams[caller].Recv()
}

// among puts the process in lockd's place.
func (e *echoing) among(all env) env {
	all.lockd = []*process{e.server}
	return all
}

func (e *echoing) close() {
	for _, c := range e.conns {
		_ = c.Close()
	}
	e.server.kill()
}
