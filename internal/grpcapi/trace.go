package grpcapi

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/observe"
)

// traceRequest logs a request of a session at debug. With debug off it costs a comparison.
func (c *conn) traceRequest(m *lockdv1.SessionRequest) {
	line := c.log.Check(zap.DebugLevel, "request")
	if line == nil {
		return
	}
	client := c.sess.Client()
	verb, content := messageOf(m)
	line.Write(append([]zap.Field{
		zap.String(observe.KeySession, c.sess.ID()), zap.String(observe.KeyClient, client.Name),
		zap.String(observe.KeyPeer, client.Peer),
		zap.Uint64(observe.KeyRequestID, m.GetRequestId()), zap.String(observe.KeyRequest, verb),
	}, describe(content)...)...)
}

// call is an answered unary call.
type call struct {
	method    string
	req, resp any
	err       error
}

// traceCall logs a unary call and its answer at debug.
func traceCall(ctx context.Context, log *zap.Logger, c call) {
	line := log.Check(zap.DebugLevel, "call")
	if line == nil {
		return
	}
	fields := []zap.Field{
		zap.String(observe.KeyMethod, c.method), zap.Stringer(observe.KeyCode, status.Code(c.err)),
		zap.String(observe.KeyPeer, peerOf(ctx)),
	}
	line.Write(append(append(fields, describe(c.req)...), describeAnswer(c.resp)...)...)
}

// messageOf is what a message of a session carries, and its name.
func messageOf(m *lockdv1.SessionRequest) (verb string, content proto.Message) {
	r := m.ProtoReflect()
	arm := r.WhichOneof(r.Descriptor().Oneofs().ByName("message"))
	if arm == nil {
		return "unknown", nil
	}
	return string(arm.Name()), r.Get(arm).Message().Interface()
}

// describe has what a request says of a lock and its client. It takes single fields, so that a resume token or a lease
// id, which are secrets, cannot come along.
func describe(req any) (fields []zap.Field) {
	text := func(key, value string) {
		if value != "" {
			fields = append(fields, zap.String(key, value))
		}
	}
	if r, ok := req.(interface{ GetName() string }); ok {
		text(observe.KeyName, r.GetName())
	}
	if r, ok := req.(interface{ GetNames() []string }); ok && len(r.GetNames()) > 0 {
		fields = append(fields, zap.Strings(observe.KeyNames, r.GetNames()))
	}
	if r, ok := req.(interface{ GetItems() []*lockdv1.AcquireItem }); ok && len(r.GetItems()) > 0 {
		names := make([]string, 0, len(r.GetItems()))
		for _, i := range r.GetItems() {
			names = append(names, i.GetName())
		}
		fields = append(fields, zap.Strings(observe.KeyNames, names))
	}
	if r, ok := req.(interface{ GetKind() lockdv1.LockKind }); ok {
		fields = append(fields, zap.Stringer(observe.KeyKind, toKind(r.GetKind())))
	}
	if r, ok := req.(interface{ GetHolder() string }); ok {
		text(observe.KeyHolder, r.GetHolder())
	}
	if r, ok := req.(interface{ GetFence() uint64 }); ok {
		fields = append(fields, zap.Uint64(observe.KeyFence, r.GetFence()))
	}
	if r, ok := req.(interface{ GetClientName() string }); ok {
		text(observe.KeyClient, r.GetClientName())
	}
	if r, ok := req.(interface{ GetAnnotation() string }); ok {
		text(observe.KeyAnnotation, r.GetAnnotation())
	}
	return fields
}

// describeAnswer has the fence of a unary lease.
func describeAnswer(resp any) []zap.Field {
	var lease *lockdv1.Lease
	switch r := resp.(type) {
	case *lockdv1.AcquireResponse:
		lease = r.GetGranted()
	case *lockdv1.ExtendResponse:
		lease = r.GetLease()
	}
	if lease == nil {
		return nil
	}
	return []zap.Field{zap.Uint64(observe.KeyFence, lease.GetFence())}
}
