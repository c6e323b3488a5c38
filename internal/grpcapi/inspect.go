package grpcapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
)

// replica is what the services tell about this replica.
type replica struct {
	b       *broker.Broker
	cfg     Config
	started time.Time
}

type inspectService struct {
	lockdv1.UnimplementedInspectServiceServer
	replica
	operators bool // it serves the operators' address, where errors may have the words of the store
}

// GetStatus tells about this replica.
func (h *inspectService) GetStatus(
	ctx context.Context, _ *lockdv1.GetStatusRequest,
) (*lockdv1.GetStatusResponse, error) {
	st, who := h.b.Status(), callerOf(ctx)
	resp := &lockdv1.GetStatusResponse{
		Replica: h.b.Replica(), Version: h.cfg.Version, Uptime: durationpb.New(time.Since(h.started)),
		Ready: st.Down == nil && !st.Draining, Draining: st.Draining, Store: h.cfg.Store,
		Hidden: !who.seesAll() && !who.mayExamine(),
	}
	if !resp.GetHidden() {
		resp.Sessions, resp.Locks, resp.Waiters = count(st.Sessions), count(st.Locks), count(st.Waiters)
		resp.ClientsFile, _ = h.cfg.Guard.InForce()
	}
	switch {
	case st.Down == nil:
	case h.operators && who.mayExamine():
		resp.StoreError = st.Down.Error()
	default:
		resp.StoreError = lock.ErrUnavailable.Error()
	}
	return resp, nil
}

func fromWaiter(i inspect.Waiter) *lockdv1.WaiterInfo {
	return &lockdv1.WaiterInfo{
		Name: i.Name, Kind: fromKind(i.Kind), SessionId: i.Session, ClientName: i.Client,
		Position: count(i.Position), Age: optional(i.Age), Owner: string(i.Owner), Peer: i.Peer, Replica: i.Replica,
		Annotation: i.Annotation, TimeLeft: optional(i.TimeLeft), Identity: i.Identity,
		ActorMark: i.ActorMark,
	}
}

// Inspect tells who holds a name and who waits for it, at all replicas. Holders and waiters get half of pageBytes each.
func (h *inspectService) Inspect(ctx context.Context, r *lockdv1.InspectRequest) (*lockdv1.InspectResponse, error) {
	in, err := h.b.Inspect(ctx, r.GetName(), pageSize(r.GetMaxHolders()), pageSize(r.GetMaxWaiters()))
	if err != nil {
		return nil, err
	}
	resp := &lockdv1.InspectResponse{
		Lock: fromLock(in.Lock), ReplicasAnswered: count(in.Answered), ReplicasAsked: count(in.Asked),
		StoreError: in.Unasked,
	}
	resp.Holders, _ = listed(in.Holders, pageBytes/2, fromHolder)
	resp.Waiters, _ = listed(in.Waiters, pageBytes/2, fromWaiter)
	return resp, nil
}

func fromHolder(i inspect.Holder) *lockdv1.HolderInfo {
	info := &lockdv1.HolderInfo{
		Owner: string(i.Owner), Origin: origins[i.Origin], Kind: fromKind(i.Kind), SessionId: i.Session,
		ClientName: i.Client.Name, Labels: i.Client.Labels, Peer: i.Client.Peer, Replica: i.Replica,
		Age: optional(i.Age), Auto: i.Auto, Fence: uint64(i.Fence), HoldCount: i.Count, Permits: i.Permits,
		Annotation: i.Annotation, Identity: i.Client.Identity, ActorMark: i.ActorMark,
	}
	if i.TTL != lock.NoTTL {
		info.Ttl = durationpb.New(i.TTL)
	}
	return info
}

// origins are where holds come from, on the wire.
var origins = map[inspect.Origin]lockdv1.HolderInfo_Origin{
	inspect.OriginSession:  lockdv1.HolderInfo_ORIGIN_SESSION,
	inspect.OriginUnary:    lockdv1.HolderInfo_ORIGIN_UNARY,
	inspect.OriginRedisson: lockdv1.HolderInfo_ORIGIN_REDISSON,
	inspect.OriginOther:    lockdv1.HolderInfo_ORIGIN_OTHER,
}

// ListDeadlocks finds deadlocks, the oldest first. A deadlock is as old as its youngest request.
func (h *inspectService) ListDeadlocks(
	ctx context.Context, _ *lockdv1.ListDeadlocksRequest,
) (*lockdv1.ListDeadlocksResponse, error) {
	found, err := h.b.Deadlocks(ctx)
	if err != nil {
		return nil, err
	}
	resp := &lockdv1.ListDeadlocksResponse{ReplicasAnswered: count(found.Answered), ReplicasAsked: count(found.Asked)}
	who := callerOf(ctx)
	all := slices.DeleteFunc(found.Deadlocks, func(d deadlock.Deadlock) bool { return len(who.hide(d).Members) == 0 })
	oldest := slices.SortedFunc(slices.Values(all), func(d, e deadlock.Deadlock) int {
		return cmp.Compare(e.Members[0].Age, d.Members[0].Age)
	})
	resp.Deadlocks, _ = listed(oldest, pageBytes, func(d deadlock.Deadlock) *lockdv1.Deadlock {
		return fromDeadlock(who.hide(d))
	})
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
