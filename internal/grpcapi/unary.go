package grpcapi

import (
	"context"
	"strings"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/session"
)

const adminMethods = "/lockd.v1.AdminService/"

// unary does what all unary calls of an address have in common. It refuses marked messages, makes a status of an error,
// tells its reason in the trailer, and counts the calls by method, which is a registered one, and code. Operators are
// not kept waiting: their b is nil.
func unary(b *broker.Broker, log *zap.Logger, m *metrics) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		done := func() {}
		if err = marked(req); err == nil && b != nil {
			done, err = admit(ctx, b, info.FullMethod, req)
		}
		if err == nil {
			resp, err = next(ctx, req)
			done()
		}
		if err = toStatus(err); err != nil {
			resp = nil
		}
		_ = grpc.SetTrailer(ctx, trailer(err)) // fails when the call is over
		m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
		traceCall(ctx, log, call{info.FullMethod, req, resp, err})
		return resp, err
	}
}

// admit lets few unary calls of one tenant go to the store at a time. An Acquire that may wait for a lock is counted
// by itself: it would keep the others out for as long as it waits. Health and reflection do not go to the store.
// What is for operators is refused.
func admit(ctx context.Context, b *broker.Broker, method string, req any) (done func(), err error) {
	if !strings.HasPrefix(method, "/lockd.v1.") {
		return func() {}, nil
	}
	r, acquire := req.(*lockdv1.AcquireRequest)
	done, err = b.Tenants().Call(ctx, tenantOf(ctx), acquire && r.GetWait().AsDuration() > 0)
	if err == nil && strings.HasPrefix(method, adminMethods) {
		done()
		return nil, session.ErrAdminOnly
	}
	return done, err
}
