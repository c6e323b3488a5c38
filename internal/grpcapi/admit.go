package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/session"
)

const adminMethods = "/lockd.v1.AdminService/"

// admit lets few unary calls of one tenant go to the store at a time. An Acquire that may wait for a lock is counted
// by itself: it would keep the others out for as long as it waits. Health and reflection do not go to the store.
// What is for operators is refused.
func admit(b *broker.Broker) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if !strings.HasPrefix(info.FullMethod, "/lockd.v1.") {
			return next(ctx, req)
		}
		var done func()
		var err error
		if r, acquire := req.(*lockdv1.AcquireRequest); acquire && r.GetWait().AsDuration() > 0 {
			done, err = b.Tenants().Wait(ctx, tenantOf(ctx))
		} else {
			done, err = b.Tenants().Call(ctx, tenantOf(ctx))
		}
		if err != nil {
			return nil, err
		}
		defer done()
		if strings.HasPrefix(info.FullMethod, adminMethods) {
			return nil, session.ErrAdminOnly
		}
		return next(ctx, req)
	}
}
