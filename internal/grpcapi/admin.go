package grpcapi

import (
	"context"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// noAdminService is what clients find in place of AdminService: a word about where it is.
type noAdminService struct {
	lockdv1.UnimplementedAdminServiceServer
}

// ForceRelease is for operators.
func (noAdminService) ForceRelease(context.Context, *lockdv1.ForceReleaseRequest) (*lockdv1.ForceReleaseResponse, error) {
	return nil, toStatus(broker.ErrAdminOnly)
}

// Drain is for operators.
func (noAdminService) Drain(context.Context, *lockdv1.DrainRequest) (*lockdv1.DrainResponse, error) {
	return nil, toStatus(broker.ErrAdminOnly)
}

// Undrain is for operators.
func (noAdminService) Undrain(context.Context, *lockdv1.UndrainRequest) (*lockdv1.UndrainResponse, error) {
	return nil, toStatus(broker.ErrAdminOnly)
}

type adminService struct {
	lockdv1.UnimplementedAdminServiceServer
	b           *broker.Broker
	drainWindow time.Duration
	server      *Server
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
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.server.health.Shutdown()
	return &lockdv1.DrainResponse{Sessions: count(h.b.Drain(max(*within, 0)))}, nil
}

// Undrain takes a Drain back, but not that of a replica that stops.
func (h *adminService) Undrain(context.Context, *lockdv1.UndrainRequest) (*lockdv1.UndrainResponse, error) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if h.server.stopping {
		return nil, toStatus(broker.ErrDraining)
	}
	drained := h.b.Undrain()
	h.server.health.Resume()
	return &lockdv1.UndrainResponse{Drained: drained}, nil
}
