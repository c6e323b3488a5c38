package grpcapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/lock"
)

// setDeadlock reads what a client says about deadlocks.
func setDeadlock(req *broker.OpenRequest, o *lockdv1.Open) error {
	req.Actor = o.GetActor()
	switch o.GetDeadlock() {
	case lockdv1.DeadlockPolicy_DEADLOCK_POLICY_UNSPECIFIED, lockdv1.DeadlockPolicy_DEADLOCK_POLICY_WAIT:
	case lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL:
		req.FailsInDeadlock = true
	default:
		return &lock.InvalidError{Field: "deadlock", Reason: lock.ReasonMessage, Detail: "no such choice"}
	}
	return nil
}

// ListDeadlocks looks for deadlocks. The oldest, whose youngest request waits longest, comes first.
func (h *inspectService) ListDeadlocks(
	ctx context.Context, _ *lockdv1.ListDeadlocksRequest,
) (*lockdv1.ListDeadlocksResponse, error) {
	found, err := h.b.Deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	resp := &lockdv1.ListDeadlocksResponse{ReplicasAnswered: count(found.Answered), ReplicasAsked: count(found.Asked)}
	oldest := slices.SortedFunc(slices.Values(found.Deadlocks), func(d, e deadlock.Deadlock) int {
		return cmp.Compare(e.Members[0].Age, d.Members[0].Age)
	})
	for _, d := range oldest {
		resp.Deadlocks = append(resp.Deadlocks, fromDeadlock(d))
	}
	resp.Deadlocks = fitting(resp.GetDeadlocks(), pageBytes)
	return resp, nil
}

func fromDeadlock(d deadlock.Deadlock) *lockdv1.Deadlock {
	m := &lockdv1.Deadlock{Omitted: count(d.Omitted)}
	for _, i := range d.Members {
		m.Members = append(m.Members, &lockdv1.DeadlockMember{
			Name: i.Want.Name, Kind: fromKind(i.Want.Kind), Owner: string(i.Owner), SessionId: i.About.Session,
			ClientName: i.About.Client, Peer: i.About.Peer, Replica: i.About.Replica, Annotation: i.About.Annotation,
			Age: optional(max(i.Age, time.Nanosecond)), TimeLeft: optional(i.About.TimeLeft),
			HeldBy: string(i.HeldBy), Fence: uint64(i.Fence), Fails: i.About.Fails,
		})
	}
	return m
}
