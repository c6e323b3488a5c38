package grpcapi

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

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
	if m, ok := c.req.(proto.Message); ok {
		fields = append(fields, describe(m.ProtoReflect())...)
	}
	switch r := c.resp.(type) {
	case *lockdv1.AcquireResponse:
		fields = append(fields, zap.Uint64(observe.KeyFence, r.GetGranted().GetFence()))
	case *lockdv1.ExtendResponse:
		fields = append(fields, zap.Uint64(observe.KeyFence, r.GetLease().GetFence()))
	}
	line.Write(fields...)
}

// messageOf returns what a message of a session carries, and the name of that.
func messageOf(m *lockdv1.SessionRequest) (verb string, content protoreflect.Message) {
	r := m.ProtoReflect()
	arm := r.WhichOneof(r.Descriptor().Oneofs().ByName("message"))
	if arm == nil {
		return "unknown", r
	}
	return string(arm.Name()), r.Get(arm).Message()
}

// told are the fields of messages that are logged, with their keys. Others may be secrets: resume tokens and lease ids.
var told = map[protoreflect.Name]string{
	"name": observe.KeyName, "names": observe.KeyNames, "items": observe.KeyNames, "kind": observe.KeyKind,
	"holder": observe.KeyHolder, "fence": observe.KeyFence, "client_name": observe.KeyClient,
	"annotation": observe.KeyAnnotation,
}

// describe returns the fields of a message that told has, for the log.
func describe(m protoreflect.Message) (fields []zap.Field) {
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		key, named := told[f.Name()]
		switch v := m.Get(f); {
		case !named || !m.Has(f):
		case f.Enum() != nil:
			fields = append(fields, zap.Stringer(key, toKind(lockdv1.LockKind(v.Enum()))))
		case f.IsList():
			names := make([]string, v.List().Len())
			for i := range names {
				switch one := v.List().Get(i).Interface().(type) {
				case string:
					names[i] = one
				case protoreflect.Message:
					names[i] = one.Interface().(*lockdv1.AcquireItem).GetName()
				}
			}
			fields = append(fields, zap.Strings(key, names))
		default:
			fields = append(fields, zap.Any(key, v.Interface()))
		}
	}
	return fields
}
