package grpcapi

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// pageSize is a usable page size.
func pageSize(n uint32) int {
	if n == 0 {
		return defaultPage
	}
	return int(min(n, maxPage))
}

type lockService struct {
	lockdv1.UnimplementedLockServiceServer
	b *broker.Broker
}

// Acquire takes a lock for a fixed time. It never is told later than the caller's deadline: what was taken in that
// moment is given back, unless the caller chose the lease id.
func (h *lockService) Acquire(ctx context.Context, r *lockdv1.AcquireRequest) (*lockdv1.AcquireResponse, error) {
	wait, err := toDuration("wait", r.GetWait())
	if err != nil {
		return nil, toStatus(err)
	}
	d, err := toRequired("lease", r.GetLease())
	if err != nil {
		return nil, toStatus(err)
	}
	what, err := toItem(r.GetName(), r)
	if err != nil {
		return nil, toStatus(err)
	}
	lease, refused, err := h.b.AcquireOnce(ctx, broker.OnceRequest{
		Name: what.Name, Kind: what.Kind, Permits: what.Permits, Limit: what.Limit,
		Wait: wait, Lease: d, LeaseID: r.GetLeaseId(), Client: r.GetClientName(), Peer: peerOf(ctx), Annotation: r.GetAnnotation(),
	})
	switch {
	case err != nil:
		return nil, toStatus(err)
	case refused != nil && ctx.Err() != nil:
		return nil, toStatus(ctx.Err())
	case refused != nil:
		return &lockdv1.AcquireResponse{Outcome: &lockdv1.AcquireResponse_NotGranted{NotGranted: fromNotGranted(*refused)}}, nil
	}
	return &lockdv1.AcquireResponse{Outcome: &lockdv1.AcquireResponse_Granted{Granted: fromOnce(lease)}}, nil
}

func fromOnce(l broker.OnceLease) *lockdv1.Lease {
	return &lockdv1.Lease{Name: l.Name, LeaseId: l.LeaseID, Fence: uint64(l.Fence), ValidFor: durationpb.New(max(l.ValidFor, 0))}
}

// Extend prolongs a lease.
func (h *lockService) Extend(_ context.Context, r *lockdv1.ExtendRequest) (*lockdv1.ExtendResponse, error) {
	d, err := toRequired("lease", r.GetLease())
	if err != nil {
		return nil, toStatus(err)
	}
	lease, err := h.b.ExtendOnce(broker.OnceExtension{
		Name: r.GetName(), Kind: toKind(r.GetKind()), LeaseID: r.GetLeaseId(), Lease: d, MayShorten: r.GetMayShorten(),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return &lockdv1.ExtendResponse{Lease: fromOnce(lease)}, nil
}

// Release gives a lease back.
func (h *lockService) Release(_ context.Context, r *lockdv1.ReleaseRequest) (*lockdv1.ReleaseResponse, error) {
	left, err := h.b.ReleaseOnce(r.GetName(), toKind(r.GetKind()), r.GetLeaseId(), r.GetKeep())
	if err != nil {
		return nil, toStatus(err)
	}
	return &lockdv1.ReleaseResponse{Remaining: left}, nil
}

// SetLimit sets how many permits a semaphore has.
func (h *lockService) SetLimit(_ context.Context, r *lockdv1.SetLimitRequest) (*lockdv1.SetLimitResponse, error) {
	previous, err := h.b.SetLimit(broker.LimitRequest{Name: r.GetName(), Limit: r.GetLimit()})
	if err != nil {
		return nil, toStatus(err)
	}
	return &lockdv1.SetLimitResponse{Previous: previous}, nil
}

// Get tells what is known of a name.
func (h *lockService) Get(ctx context.Context, r *lockdv1.GetRequest) (*lockdv1.GetResponse, error) {
	info, err := h.b.Lock(ctx, r.GetName())
	if err != nil {
		return nil, toStatus(err)
	}
	return &lockdv1.GetResponse{Lock: fromLock(info)}, nil
}

// List lists the names that are held.
func (h *lockService) List(ctx context.Context, r *lockdv1.ListRequest) (*lockdv1.ListResponse, error) {
	infos, next, err := h.b.Locks(ctx, r.GetPrefix(), r.GetPageToken(), pageSize(r.GetPageSize()))
	if err != nil {
		return nil, toStatus(err)
	}
	resp := &lockdv1.ListResponse{NextPageToken: next}
	for _, i := range infos {
		resp.Locks = append(resp.Locks, fromLock(i))
	}
	return resp, nil
}
