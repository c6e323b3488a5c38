package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
)

// replicas are the connections to the servers of a list, of which one is used until it does not answer.
type replicas struct {
	conns []*grpc.ClientConn

	mu sync.Mutex // guards the field below
	at int
}

func newReplicas(list string, port int, creds credentials.TransportCredentials, sent *sentRequests) (*replicas, error) {
	addrs, err := client.Addresses(list, port)
	if err != nil {
		return nil, err
	}
	r := &replicas{}
	for _, addr := range addrs {
		conn, err := grpc.NewClient(addr,
			grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(), grpc.WithStatsHandler(sent))
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
	if err := checkTexts(args); err != nil {
		return err
	}
	r.mu.Lock()
	at := r.at
	r.mu.Unlock()
	err := r.conns[at].Invoke(ctx, method, args, reply, opts...)
	if c := status.Code(err); c == grpccodes.Unavailable || c == grpccodes.DeadlineExceeded {
		err = located(err, r.conns[at].Target())
		r.mu.Lock()
		r.at = (at + 1) % len(r.conns)
		r.mu.Unlock()
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

// sentRequests knows whether a request was sent to a server that could be reached, since any was last set back.
type sentRequests struct{ any atomic.Bool }

// HandleRPC is for package grpc.
func (s *sentRequests) HandleRPC(_ context.Context, e stats.RPCStats) {
	if _, ok := e.(*stats.OutHeader); ok {
		s.any.Store(true)
	}
}

// TagRPC is for package grpc.
func (*sentRequests) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleConn is for package grpc.
func (*sentRequests) HandleConn(context.Context, stats.ConnStats) {}

// TagConn is for package grpc.
func (*sentRequests) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
