package grpcapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/session"
)

// Local has services called by a part of this process that serves people, as by a client at Addr: a call is decoded,
// checked, bounded, counted and audited by the same code as one that comes over the network. Only what such a part
// needs can be called. Without a clients file nothing can be changed.
type Local struct {
	door     door
	codec    frameCodec
	methods  map[string]localMethod
	client   grpc.UnaryServerInterceptor
	operator grpc.UnaryServerInterceptor
}

// localMethod is a method, and the service that has it.
type localMethod struct {
	service any
	handler grpc.MethodHandler
	looks   bool // it changes nothing
}

// localActs are the calls that change something, and can be made.
var localActs = []string{
	lockdv1.AdminService_ForceRelease_FullMethodName, lockdv1.AdminService_RemoveLimit_FullMethodName,
	lockdv1.LockService_SetLimit_FullMethodName,
}

// newLocal has all of an InspectService, and of the others what is named.
func newLocal(l Local, inspect, admin, locks any) *Local {
	l.methods = map[string]localMethod{}
	add := func(d *grpc.ServiceDesc, service any, looks bool, only ...string) {
		for _, m := range d.Methods {
			name := "/" + d.ServiceName + "/" + m.MethodName
			for _, o := range only {
				if strings.HasPrefix(name, o) {
					l.methods[name] = localMethod{service, m.Handler, looks}
				}
			}
		}
	}
	add(&lockdv1.InspectService_ServiceDesc, inspect, true, "/")
	add(&lockdv1.AdminService_ServiceDesc, admin, true, lockdv1.AdminService_Examine_FullMethodName)
	add(&lockdv1.AdminService_ServiceDesc, admin, false, localActs...)
	add(&lockdv1.LockService_ServiceDesc, locks, false, localActs...)
	return &l
}

// As is a context for calls of somebody at an address, who showed a certificate to TLS, or a header of authorization.
func (l *Local) As(ctx context.Context, addr string, state *tls.ConnectionState, authorization string) context.Context {
	p := &peer.Peer{Addr: &net.UnixAddr{}}
	if at, err := netip.ParseAddrPort(addr); err == nil {
		p.Addr = net.TCPAddrFromAddrPort(at)
	}
	if state != nil {
		p.AuthInfo = credentials.TLSInfo{State: *state}
	}
	md := metadata.MD{}
	if authorization != "" {
		md.Set("authorization", authorization)
	}
	return metadata.NewIncomingContext(peer.NewContext(ctx, p), md)
}

// Who is the client of the clients file that somebody is; empty without a file. Its error is a *Refusal.
func (l *Local) Who(ctx context.Context) (client string, err error) {
	who, err := l.door.identify(ctx)
	if err != nil {
		return "", refusal(toStatus(err))
	}
	return who.name(), nil
}

// Inspect is InspectService.
func (l *Local) Inspect() lockdv1.InspectServiceClient { return lockdv1.NewInspectServiceClient(l) }

// Admin is what there is of AdminService.
func (l *Local) Admin() lockdv1.AdminServiceClient { return lockdv1.NewAdminServiceClient(l) }

// Locks is what there is of LockService.
func (l *Local) Locks() lockdv1.LockServiceClient { return lockdv1.NewLockServiceClient(l) }

// Invoke implements grpc.ClientConnInterface. Its error is a *Refusal.
func (l *Local) Invoke(ctx context.Context, method string, args, into any, _ ...grpc.CallOption) error {
	m, there := l.methods[method]
	if !there {
		return refusal(status.Error(codes.Unimplemented, "not to be called from here"))
	}
	if !m.looks && l.door.guard == nil {
		return refusal(toStatus(session.ErrAdminOnly))
	}
	text, err := proto.Marshal(args.(proto.Message))
	if err != nil { // a text that is not UTF-8
		return refusal(toStatus(marks[markUnreadable]))
	}
	through := l.client
	if method == lockdv1.AdminService_Examine_FullMethodName { // who may look without a clients file may do it, too
		through = l.operator
	}
	read := func(v any) error { return l.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(text)}, v) }
	ctx = grpc.NewContextWithServerTransportStream(ctx, localCall(method))
	got, err := m.handler(m.service, ctx, read, through)
	if err != nil {
		return refusal(err)
	}
	answer := got.(*reply)
	defer answer.ended()
	proto.Merge(into.(proto.Message), answer.message.(proto.Message))
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (l *Local) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, refusal(status.Error(codes.Unimplemented, "not to be called from here"))
}

// localCall tells handlers their method. There is nobody to send headers and trailers to.
type localCall string

// Method implements grpc.ServerTransportStream.
func (c localCall) Method() string { return string(c) }

// SetHeader implements grpc.ServerTransportStream.
func (localCall) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerTransportStream.
func (localCall) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerTransportStream.
func (localCall) SetTrailer(metadata.MD) error { return nil }

// Refusal is why a call failed.
type Refusal struct{ failure *lockdv1.Failure }

func refusal(err error) error {
	st := status.Convert(err)
	f := &lockdv1.Failure{Code: int32(st.Code()), Message: st.Message()} //nolint:gosec // at most 16
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			f.Reason = info.GetReason()
		}
	}
	return &Refusal{f}
}

func (r *Refusal) Error() string { return r.failure.GetMessage() }

// Failure has the code and the reason.
func (r *Refusal) Failure() *lockdv1.Failure { return r.failure }
