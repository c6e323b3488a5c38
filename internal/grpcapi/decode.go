package grpcapi

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// toDuration reads an optional duration; nil if it is absent. The broker judges its value. A duration that is too long
// for Go becomes the longest one, which no limit allows.
func toDuration(field string, d *durationpb.Duration) (*time.Duration, error) {
	if d == nil {
		return nil, nil
	}
	if !d.IsValid() {
		return nil, lock.Invalid(field, lock.ReasonDuration, "no duration, or one of more than 10,000 years")
	}
	v := d.AsDuration()
	return &v, nil
}

func toRequired(field string, d *durationpb.Duration) (time.Duration, error) {
	v, err := toDuration(field, d)
	if err != nil {
		return 0, err
	}
	if v == nil {
		return 0, lock.Invalid(field, lock.ReasonDuration, "is required")
	}
	return *v, nil
}

func toOpen(o *lockdv1.Open) (session.OpenRequest, error) {
	req := session.OpenRequest{
		Client: session.Client{Name: o.GetClientName(), Labels: o.GetLabels()}, Actor: o.GetActor(),
		ComesBack:       slices.Contains(o.GetFeatures(), lockdv1.Feature_FEATURE_RESUME),
		ReleaseOnEnd:    o.GetOnDisconnect() == lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE,
		FailsInDeadlock: o.GetDeadlock() == lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL,
	}
	ttl, err := toDuration("session_ttl", o.GetSessionTtl())
	switch {
	case o.GetOnDisconnect() > lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE, o.GetOnDisconnect() < 0:
		return req, lock.Invalid("on_disconnect", lock.ReasonMessage, "no such choice")
	case o.GetDeadlock() > lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL, o.GetDeadlock() < 0:
		return req, lock.Invalid("deadlock", lock.ReasonMessage, "no such choice")
	case err != nil || ttl == nil:
		return req, err
	case *ttl == 0:
		return req, lock.Invalid("session_ttl", lock.ReasonDuration, "must not be 0")
	}
	req.TTL = *ttl
	return req, nil
}

// toResume reads what a client brings to go on with a session.
func toResume(open session.OpenRequest, r *lockdv1.Resume) (session.ResumeRequest, error) {
	req := session.ResumeRequest{
		OpenRequest: open, ID: r.GetSessionId(), Token: r.GetResumeToken(), Epoch: r.GetEpoch(),
		LastRequest: r.GetLastRequestId(),
	}
	err := setPast(&req.Age, "resume.age", r.GetAge())
	for i, h := range r.GetHolds() {
		within := func(err error) error { return lock.Within(fmt.Sprintf("resume.holds[%d]", i), err) }
		hold := session.HeldLock{
			Hold: toHold(h.GetHold()), Count: h.GetHoldCount(), Auto: h.GetAuto(), Permits: h.GetPermits(),
			Annotation: h.GetAnnotation(),
		}
		hold.Hold.AcquiredBy = h.GetHold().GetAcquiredBy()
		var bad error
		if hold.MaxHold, bad = toDuration("max_hold", h.GetMaxHold()); bad != nil {
			err = cmp.Or(err, within(bad))
		}
		if bad := setPast(&hold.Age, "age", h.GetAge()); bad != nil {
			err = cmp.Or(err, within(bad))
		}
		req.Holds = append(req.Holds, hold)
	}
	return req, err
}

// setPast sets *to to an optional duration. If it is absent, *to stays as it is.
func setPast(to *time.Duration, field string, m *durationpb.Duration) error {
	d, err := toDuration(field, m)
	if d != nil {
		*to = *d
	}
	return err
}

// named is what a Hold, a Release and an Extend have in common: which hold they mean.
type named interface {
	GetName() string
	GetKind() lockdv1.LockKind
	GetHolder() string
	GetFence() uint64
}

func toHold(h named) session.Hold {
	return session.Hold{
		Name: h.GetName(), Kind: toKind(h.GetKind()), Holder: h.GetHolder(), Fence: lock.Fence(h.GetFence()),
	}
}

// setAcquire reads a into req, which must be empty.
func setAcquire(req *request.Acquire, a *lockdv1.Acquire) (err error) {
	req.Holder, req.Annotation, req.Actor = a.GetHolder(), a.GetAnnotation(), a.GetActor()
	req.Traceparent, req.TellHolder = a.GetTraceparent(), a.GetTellHolder()
	req.InsteadOf = slices.Clone(a.GetInsteadOf()) // the memory of a is used again
	var first request.Item
	if len(a.GetNames())+len(a.GetItems()) == 0 {
		first, err = toItem(a.GetName(), a)
	} else {
		first, err = setItems(req, a)
	}
	if err != nil {
		return err
	}
	req.Name, req.Kind, req.Permits, req.Limit = first.Name, first.Kind, first.Permits, first.Limit
	if req.Wait, err = toDuration("wait", a.GetWait()); err != nil {
		return err
	}
	if err = setPast(&req.Waited, "waited", a.GetWaited()); err != nil {
		return err
	}
	if req.MaxHold, err = toDuration("max_hold", a.GetMaxHold()); err != nil {
		return err
	}
	req.Lease, err = toDuration("lease", a.GetLease())
	return err
}

// setItems reads the names or items of a, of which there must be one at least, and returns the first.
func setItems(req *request.Acquire, a *lockdv1.Acquire) (first request.Item, err error) {
	names, items := a.GetNames(), a.GetItems()
	switch {
	case a.GetName() != "", len(names) > 0 && len(items) > 0:
		return first, lock.Invalid("name", lock.ReasonName, "only one of name, names and items")
	case len(items) > 0 && a.GetKind() != lockdv1.LockKind_LOCK_KIND_UNSPECIFIED:
		return first, lock.Invalid("kind", lock.ReasonKind, "each of the items has its own")
	}
	common, err := toItem("", a)
	if err != nil { // if a has items: its own permits belong to none of them
		return first, err
	}
	req.List = request.Names
	all := make([]request.Item, len(names), len(names)+len(items))
	for i, name := range names {
		all[i], all[i].Name = common, name
	}
	for i, item := range items {
		req.List = request.Items
		one, err := toItem(item.GetName(), item)
		if err != nil {
			return first, request.Items.Within(i, err)
		}
		all = append(all, one)
	}
	req.More = all[1:]
	return all[0], nil
}

// asked is what an Acquire, an AcquireItem and an AcquireRequest have in common: how one lock is asked for.
type asked interface {
	GetKind() lockdv1.LockKind
	GetPermits() uint32
	GetLimit() uint32
}

// toItem reads how one lock is asked for. For a kind without permits one permit means the same as none.
func toItem(name string, a asked) (request.Item, error) {
	i := request.Item{Name: name, Kind: toKind(a.GetKind()), Permits: a.GetPermits(), Limit: a.GetLimit()}
	if i.Kind == lock.Semaphore {
		return i, nil
	}
	if i.Permits > 1 || i.Limit > 0 {
		field := "permits"
		if i.Limit > 0 {
			field = "limit"
		}
		return i, lock.Invalid(field, lock.ReasonPermits, "only a semaphore has permits")
	}
	i.Permits = 0
	return i, nil
}
