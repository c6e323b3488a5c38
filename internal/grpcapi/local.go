package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/session"
)

// Local makes the unary calls of clients that come by HTTP. A call goes the way of one by gRPC, but for the connection:
// the same bounds of its message, the same interceptor, the same services. It implements grpc.ClientConnInterface.
type Local struct {
	b       *broker.Broker
	codec   frameCodec
	unary   grpc.UnaryServerInterceptor
	spans   stats.Handler // nil: calls are not traced
	methods map[string]localMethod
	stopped context.Context
	stop    context.CancelFunc
}

type localMethod struct {
	service any
	handle  grpc.MethodHandler
}

func newLocal(b *broker.Broker, codec frameCodec, unary grpc.UnaryServerInterceptor, spans stats.Handler) *Local {
	l := &Local{b: b, codec: codec, unary: unary, spans: spans, methods: make(map[string]localMethod)}
	l.stopped, l.stop = context.WithCancel(context.Background())
	return l
}

// Local is what adapters of other protocols make their calls with.
func (s *Server) Local() *Local { return s.local }

// RegisterService implements grpc.ServiceRegistrar.
func (l *Local) RegisterService(of *grpc.ServiceDesc, service any) {
	for _, m := range of.Methods {
		l.methods["/"+of.ServiceName+"/"+m.MethodName] = localMethod{service, m.Handler}
	}
}

// Stop ends the calls that wait, with DRAINING. It does not wait for them.
func (l *Local) Stop() { l.stop() }

// visit is one request of another protocol, which makes one call after the other.
type visit struct{ leave func() }

type visitKey struct{}

// remote is the network address of a client.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

// String implements net.Addr.
func (r remote) String() string { return string(r) }

// Visit lets in a request from an address, over TLS unless secure is nil. Make its calls with inside. Call leave once
// its client has read the answer or never will: until then the answer counts against its tenant. The address pays
// limits.Unary and price for the other protocol. If the request would wait too long for that, it is refused with a
// status.
func (l *Local) Visit(
	ctx context.Context, from string, secure *tls.ConnectionState, authorization []string, price time.Duration,
) (inside context.Context, leave func(), err error) {
	p := &peer.Peer{Addr: remote(from)}
	if secure != nil {
		p.AuthInfo = credentials.TLSInfo{State: *secure}
	}
	v := &visit{leave: func() {}}
	ctx = context.WithValue(peer.NewContext(ctx, p), visitKey{}, v)
	ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"authorization": authorization})
	err = l.b.Tenants().Work(ctx, limits.TenantOf(from), limits.Unary+price, limits.UnaryPatience)
	return ctx, func() { v.leave() }, toStatus(err)
}

// Pay charges an address for what a request of its cost besides what Visit charged. It does not wait.
func (l *Local) Pay(from string, price time.Duration) {
	l.b.Tenants().Spend(limits.TenantOf(from), price)
}

// Denied counts a request that is refused because there are limit of a subject already, and returns its status.
func (l *Local) Denied(subject string, limit int) error { return toStatus(l.b.Denied(subject, limit)) }

// Invoke implements grpc.ClientConnInterface. ctx must come from Visit.
func (l *Local) Invoke(ctx context.Context, method string, args, answer any, _ ...grpc.CallOption) error {
	m, known := l.methods[method]
	v, visits := ctx.Value(visitKey{}).(*visit)
	message, ok := answer.(proto.Message)
	if !known || !visits || !ok {
		return status.Error(codes.Unimplemented, "no such call")
	}
	data, err := l.codec.Marshal(args)
	if err != nil {
		return toStatus(badMessage("text that is not UTF-8"))
	}
	defer data.Free()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.stopped, cancel)()
	ctx = grpc.NewContextWithServerTransportStream(ctx, localStream(method))
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx, ended := l.trace(metadata.NewIncomingContext(ctx, md), method)
	resp, err := m.handle(m.service, ctx, func(in any) error { return l.codec.Unmarshal(data, in) }, l.unary)
	ended(err)
	if err != nil {
		return l.refuse(ctx, err)
	}
	r := resp.(*reply) // of the interceptor
	before := v.leave
	v.leave = func() { r.ended(); before() }
	to := message.ProtoReflect()
	r.message.(proto.Message).ProtoReflect().Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(f, value)
		return true
	})
	return nil
}

// refuse returns the error for the client. It charges the address for a call without good credentials, and makes
// DRAINING of what Stop cancelled.
func (l *Local) refuse(ctx context.Context, err error) error {
	switch code := status.Code(err); {
	case code == codes.Unauthenticated:
		l.b.Tenants().Spend(limits.TenantOf(peerOf(ctx)), limits.Stranger)
	case code == codes.Canceled && l.stopped.Err() != nil:
		return toStatus(session.ErrDraining)
	}
	return err
}

// trace begins the span of a call, as gRPC's server does.
func (l *Local) trace(ctx context.Context, method string) (inside context.Context, ended func(error)) {
	if l.spans == nil {
		return ctx, func(error) {}
	}
	began := time.Now()
	ctx = l.spans.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
	l.spans.HandleRPC(ctx, &stats.Begin{BeginTime: began})
	return ctx, func(err error) { l.spans.HandleRPC(ctx, &stats.End{BeginTime: began, EndTime: time.Now(), Error: err}) }
}

// errNoStreams: what comes by HTTP is one request and one answer.
var errNoStreams = errors.New("streams are spoken by gRPC only")

// NewStream implements grpc.ClientConnInterface.
func (l *Local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, errNoStreams.Error())
}

// localStream stands for gRPC's stream of a call. It has the method, and drops headers and trailers.
type localStream string

// Method implements grpc.ServerTransportStream.
func (s localStream) Method() string { return string(s) }

// SetHeader implements grpc.ServerTransportStream.
func (localStream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerTransportStream.
func (localStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerTransportStream.
func (localStream) SetTrailer(metadata.MD) error { return nil }
