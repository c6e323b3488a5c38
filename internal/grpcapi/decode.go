package grpcapi

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// toKind translates a kind; one that does not exist becomes one the broker refuses.
func toKind(k lockdv1.LockKind) broker.Kind {
	switch k {
	case lockdv1.LockKind_LOCK_KIND_UNSPECIFIED, lockdv1.LockKind_LOCK_KIND_EXCLUSIVE:
		return broker.Exclusive
	case lockdv1.LockKind_LOCK_KIND_FAIR:
		return broker.Fair
	case lockdv1.LockKind_LOCK_KIND_READ:
		return broker.Read
	case lockdv1.LockKind_LOCK_KIND_WRITE:
		return broker.Write
	case lockdv1.LockKind_LOCK_KIND_SEMAPHORE:
		return broker.Semaphore
	default:
		return 0
	}
}

// toDuration reads an optional duration. The broker judges whether it makes sense; here it only must be one. What is
// longer than Go can tell is told as the longest, which no limit allows.
func toDuration(field string, d *durationpb.Duration) (*time.Duration, error) {
	if d == nil {
		return nil, nil
	}
	if err := d.CheckValid(); err != nil {
		return nil, &broker.InvalidError{Field: field, Reason: broker.ReasonDuration, Detail: err.Error()}
	}
	v := d.AsDuration()
	return &v, nil
}

// toRequired reads a duration that must be there.
func toRequired(field string, d *durationpb.Duration) (time.Duration, error) {
	v, err := toDuration(field, d)
	if err != nil {
		return 0, err
	}
	if v == nil {
		return 0, &broker.InvalidError{Field: field, Reason: broker.ReasonDuration, Detail: "is required"}
	}
	return *v, nil
}

func toOpen(o *lockdv1.Open) (broker.OpenRequest, error) {
	req := broker.OpenRequest{Client: broker.Client{Name: o.GetClientName(), Labels: o.GetLabels()}}
	if o.GetResume() != nil {
		return req, broker.ErrSessionExpired // no session outlives its stream
	}
	switch o.GetOnDisconnect() {
	case lockdv1.OnDisconnect_ON_DISCONNECT_UNSPECIFIED, lockdv1.OnDisconnect_ON_DISCONNECT_EXPIRE:
	case lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE:
		req.ReleaseOnEnd = true
	default:
		return req, &broker.InvalidError{Field: "on_disconnect", Reason: broker.ReasonMessage, Detail: "no such choice"}
	}
	ttl, err := toDuration("session_ttl", o.GetSessionTtl())
	if err != nil {
		return req, err
	}
	if ttl != nil {
		req.TTL = *ttl
		if req.TTL == 0 {
			return req, &broker.InvalidError{Field: "session_ttl", Reason: broker.ReasonDuration, Detail: "must not be 0"}
		}
	}
	return req, nil
}

func wantsBatches(o *lockdv1.Open) bool {
	return slices.Contains(o.GetFeatures(), lockdv1.Feature_FEATURE_BATCH)
}

func toAcquire(a *lockdv1.Acquire) (broker.AcquireRequest, error) {
	req := broker.AcquireRequest{
		Name: a.GetName(), Kind: toKind(a.GetKind()), Holder: a.GetHolder(), Annotation: a.GetAnnotation(),
	}
	switch names := a.GetNames(); {
	case len(names) > 0 && req.Name != "":
		return req, &broker.InvalidError{Field: "names", Reason: broker.ReasonName, Detail: "either name or names"}
	case len(names) == 1:
		req.Name = names[0]
	case len(names) > 1:
		return req, broker.ErrUnsupported
	}
	if a.GetPermits() > 1 && req.Kind != broker.Semaphore {
		return req, &broker.InvalidError{Field: "permits", Reason: broker.ReasonPermits, Detail: "only a semaphore has permits"}
	}
	var err error
	if req.Wait, err = toDuration("wait", a.GetWait()); err != nil {
		return req, err
	}
	req.Lease, err = toDuration("lease", a.GetLease())
	return req, err
}

func toRelease(r *lockdv1.Release) (broker.Hold, error) {
	return broker.Hold{
		Name: r.GetName(), Kind: toKind(r.GetKind()), Holder: r.GetHolder(), Fence: broker.Fence(r.GetFence()),
	}, nil
}

func toExtend(e *lockdv1.Extend) (broker.ExtendRequest, error) {
	d, err := toRequired("lease", e.GetLease())
	hold := broker.Hold{
		Name: e.GetName(), Kind: toKind(e.GetKind()), Holder: e.GetHolder(), Fence: broker.Fence(e.GetFence()),
	}
	return broker.ExtendRequest{Hold: hold, Lease: d}, err
}
