package grpcapi

import (
	"context"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

type adminService struct {
	lockdv1.UnimplementedAdminServiceServer
	b           *broker.Broker
	drainWindow time.Duration
	notServing  func()
}

// ForceRelease frees a name whoever holds it.
func (h *adminService) ForceRelease(ctx context.Context, r *lockdv1.ForceReleaseRequest) (*lockdv1.ForceReleaseResponse, error) {
	released, err := h.b.ForceRelease(ctx, r.GetName(), toKind(r.GetKind()))
	if err != nil {
		return nil, toStatus(err)
	}
	return &lockdv1.ForceReleaseResponse{Released: released}, nil
}

// Drain asks all clients of this replica to move on.
func (h *adminService) Drain(_ context.Context, r *lockdv1.DrainRequest) (*lockdv1.DrainResponse, error) {
	within, err := toDuration("within", r.GetWithin())
	if err != nil {
		return nil, toStatus(err)
	}
	if within == nil {
		within = &h.drainWindow
	}
	h.notServing()
	return &lockdv1.DrainResponse{Sessions: count(h.b.Drain(max(*within, 0)))}, nil
}
