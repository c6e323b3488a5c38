package main

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
)

// replicas are the connections to the servers of a list. One of them is used until it does not answer. Only one
// goroutine may use them.
type replicas struct {
	conns []*grpc.ClientConn
	at    int
	sent  bool // a request was sent to a server that could be reached, since this was last set to false
}

func newReplicas(list string, port int, opts []grpc.DialOption) (*replicas, error) {
	addrs, err := client.Addresses(list, port)
	if err != nil {
		return nil, err
	}
	r := &replicas{}
	for _, addr := range addrs {
		conn, err := grpc.NewClient(addr, append(opts, grpc.WithDisableServiceConfig())...)
		if err != nil {
			r.close()
			return nil, err
		}
		r.conns = append(r.conns, conn)
	}
	return r, nil
}

func (r *replicas) close() {
	for _, conn := range r.conns {
		_ = conn.Close() // nothing is under way
	}
}

// Invoke is for the generated stubs. A call that fails because its server is away is not repeated here, but the next
// one goes to another server.
func (r *replicas) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, to := r.conns[r.at], peer.Peer{}
	err := conn.Invoke(ctx, method, args, reply, append(opts, grpc.Peer(&to))...)
	r.sent = r.sent || to.Addr != nil
	if c := status.Code(err); c == grpccodes.Unavailable || c == grpccodes.DeadlineExceeded {
		err = located(err, conn.Target())
		r.at = (r.at + 1) % len(r.conns)
	}
	return err
}

// located adds the server to an error of gRPC that does not name it, as when its host has no address.
func located(err error, server string) error {
	p := status.Convert(err).Proto()
	if p.GetMessage() != "" && len(p.GetDetails()) == 0 && !strings.Contains(p.GetMessage(), server) {
		p.Message = server + ": " + p.GetMessage()
	}
	return status.ErrorProto(p)
}

// NewStream is for the generated stubs, none of which is used for a stream.
func (*replicas) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}
