package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

type lockService struct {
	lockdv1.UnimplementedLockServiceServer
	b *broker.Broker
}

// Acquire takes a lock for a fixed time. What is taken as the caller's deadline passes is undone, unless the caller
// chose the lease id.
func (h *lockService) Acquire(ctx context.Context, r *lockdv1.AcquireRequest) (*lockdv1.AcquireResponse, error) {
	wait, err := toDuration("wait", r.GetWait())
	if err != nil {
		return nil, err
	}
	d, err := toRequired("lease", r.GetLease())
	if err != nil {
		return nil, err
	}
	what, err := toItem(r.GetName(), r)
	if err != nil {
		return nil, err
	}
	lease, refused, err := h.b.AcquireOnce(ctx, request.Once{
		Name: what.Name, Kind: what.Kind, Permits: what.Permits, Limit: what.Limit,
		Wait: wait, Lease: d, LeaseID: r.GetLeaseId(), Client: r.GetClientName(), Peer: peerOf(ctx), Tenant: tenantOf(ctx),
		Identity: callerOf(ctx).identity(), Annotation: r.GetAnnotation(),
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case refused != nil:
		return &lockdv1.AcquireResponse{Outcome: &lockdv1.AcquireResponse_NotGranted{NotGranted: fromNotGranted(*refused)}},
			nil
	}
	return &lockdv1.AcquireResponse{Outcome: &lockdv1.AcquireResponse_Granted{Granted: fromOnce(lease)}}, nil
}

func fromOnce(l broker.OnceLease) *lockdv1.Lease {
	return &lockdv1.Lease{
		Name: l.Name, LeaseId: l.LeaseID, Fence: uint64(l.Fence),
		ValidFor: durationpb.New(max(l.ValidFor, 0)),
	}
}

// Extend prolongs a lease.
func (h *lockService) Extend(ctx context.Context, r *lockdv1.ExtendRequest) (*lockdv1.ExtendResponse, error) {
	d, err := toRequired("lease", r.GetLease())
	if err != nil {
		return nil, err
	}
	lease, err := h.b.ExtendOnce(request.Once{
		Tenant: tenantOf(ctx), Identity: callerOf(ctx).identity(),
		Name: r.GetName(), Kind: toKind(r.GetKind()), LeaseID: r.GetLeaseId(), Lease: d, MayShorten: r.GetMayShorten(),
	})
	return &lockdv1.ExtendResponse{Lease: fromOnce(lease)}, err
}

// Release ends a lease, or releases some of its permits.
func (h *lockService) Release(ctx context.Context, r *lockdv1.ReleaseRequest) (*lockdv1.ReleaseResponse, error) {
	left, err := h.b.ReleaseOnce(request.Once{
		Tenant: tenantOf(ctx), Identity: callerOf(ctx).identity(),
		Name: r.GetName(), Kind: toKind(r.GetKind()), LeaseID: r.GetLeaseId(), Keep: r.GetKeep(),
	})
	return &lockdv1.ReleaseResponse{Remaining: left}, err
}

// SetLimit sets how many permits a semaphore has.
func (h *lockService) SetLimit(ctx context.Context, r *lockdv1.SetLimitRequest) (*lockdv1.SetLimitResponse, error) {
	previous, err := h.b.SetLimit(request.SetLimit{
		Tenant: tenantOf(ctx), Name: r.GetName(), Limit: r.GetLimit(), By: clientOf(ctx),
	})
	return &lockdv1.SetLimitResponse{Previous: previous}, err
}

// Get tells what is known of a name.
func (h *lockService) Get(ctx context.Context, r *lockdv1.GetRequest) (*lockdv1.GetResponse, error) {
	info, err := h.b.Lock(ctx, r.GetName())
	return &lockdv1.GetResponse{Lock: fromLock(info)}, err
}

// List lists the names that are held. If a page has too many bytes, a smaller one is read: it cannot be cut, as the
// store's token is for the whole page.
func (h *lockService) List(ctx context.Context, r *lockdv1.ListRequest) (*lockdv1.ListResponse, error) {
	who := callerOf(ctx)
	if _, left := who.from(r.GetPrefix(), ""); !left {
		return &lockdv1.ListResponse{}, nil
	}
	for size := pageSize(r.GetPageSize()); ; size /= 2 {
		infos, next, err := h.b.Locks(ctx, r.GetPrefix(), r.GetPageToken(), size)
		if err != nil {
			return nil, err
		}
		infos = slices.DeleteFunc(infos, func(i session.LockInfo) bool { return !who.sees(i.Name) })
		if locks, whole := listed(infos, pageBytes, fromLock); whole || size == 1 {
			return &lockdv1.ListResponse{Locks: locks, NextPageToken: next}, nil
		}
	}
}
