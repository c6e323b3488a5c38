package grpcapi

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/session"
)

const adminMethods = "/lockd.v1.AdminService/"

// unary is the interceptor of all unary calls at an address. It refuses marked messages, makes statuses of errors, with
// the reason in the trailer, and counts calls by method and code. With a clients file it identifies callers and checks
// their rights, except for health and reflection. A call is under way until its answer was read.
func unary(b *broker.Broker, operators bool, a authenticator, log *zap.Logger, m *metrics) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		var who *caller
		ours := strings.HasPrefix(info.FullMethod, "/lockd.v1.")
		if err = marked(req); err == nil && ours {
			if who, err = a.identify(ctx); who != nil {
				ctx = context.WithValue(ctx, callerKey{}, who)
			}
		}
		done := func() {}
		if isList(req) && !operators { // operators pay for no lists
			ctx = inspect.Billed(ctx, func(took time.Duration) { b.Tenants().Spend(tenantOf(ctx), took) })
		}
		if err == nil && ours {
			var left func()
			if left, err = admit(ctx, b, operators, info.FullMethod, req); err == nil {
				done = left
			}
		}
		if err == nil {
			if err = who.may(req); err == nil {
				resp, err = next(ctx, req)
			}
		}
		who.auditCall(info.FullMethod, req, err)
		if err = toStatus(err); err != nil {
			resp = nil
			done()
		}
		_ = grpc.SetTrailer(ctx, trailer(err)) // fails when the call is over
		m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
		traceCall(ctx, log, call{info.FullMethod, req, resp, err})
		if err != nil {
			return nil, err
		}
		return newReply(ctx, resp, done), nil
	}
}

// admit lets few unary calls of one tenant go to the store at a time; done ends the call. An Acquire that may wait for
// a lock is counted apart: it would keep the others out. Operators do not wait, but their lists are counted because of
// the memory that they take. Without a clients file AdminService is refused at the clients' address. The quotas of a
// client hold at both addresses, but refuse no Release.
func admit(ctx context.Context, b *broker.Broker, operators bool, method string, req any) (done func(), err error) {
	r, acquire := req.(*lockdv1.AcquireRequest)
	use := b.Tenants().Use(tenantOf(ctx))
	if _, back := req.(*lockdv1.ReleaseRequest); back {
		use.Add(limits.UseStreams, 1)
	} else {
		if err = use.Request(); err == nil {
			err = use.Take(limits.UseStreams, 1)
		}
		if err != nil {
			b.Tenants().Spend(tenantOf(ctx), limits.Refusal)
			return nil, err
		}
	}
	left := func() { use.Give(limits.UseStreams, 1) }
	if isList(req) {
		listed, err := b.Tenants().List(ctx, tenantOf(ctx))
		if err != nil {
			left()
			return nil, err
		}
		left = func() { listed(); use.Give(limits.UseStreams, 1) }
	}
	if operators {
		return left, nil
	}
	called, err := b.Tenants().Call(ctx, tenantOf(ctx), acquire && r.GetWait().AsDuration() > 0)
	if err == nil && callerOf(ctx) == nil && strings.HasPrefix(method, adminMethods) {
		called()
		err = session.ErrAdminOnly
	}
	if err != nil {
		left()
		return nil, err
	}
	return func() { called(); left() }, nil
}

// isList says whether the answer may be as large as a page.
func isList(req any) bool {
	switch req.(type) {
	case *lockdv1.ListRequest, *lockdv1.ListSessionsRequest, *lockdv1.ListHoldsRequest, *lockdv1.ListWaitersRequest,
		*lockdv1.ListDeadlocksRequest, *lockdv1.InspectRequest, *lockdv1.WhoAmIRequest, *lockdv1.ListEventsRequest,
		*lockdv1.ListBusiestRequest:
		return true
	}
	return false
}
