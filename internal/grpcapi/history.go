package grpcapi

import (
	"context"
	"slices"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/inspect"
)

// defaultWindow is how far back ListBusiest looks if the request does not say.
const defaultWindow = time.Minute

// ListEvents lists what happened to a name.
func (h *inspectService) ListEvents(
	ctx context.Context, r *lockdv1.ListEventsRequest,
) (*lockdv1.ListEventsResponse, error) {
	var p inspect.Period
	err := setPast(&p.Since, "max_age", r.GetMaxAge())
	if err == nil {
		err = setPast(&p.Until, "min_age", r.GetMinAge())
	}
	if err != nil {
		return nil, err
	}
	found, err := h.b.EventsEverywhere(ctx, r.GetName(), p, r.GetPageToken(), pageSize(r.GetPageSize()))
	if err != nil {
		return nil, err
	}
	events, whole := listed(found.Events, pageBytes, fromEvent)
	if !whole {
		found.Next = found.Events[len(events)-1].Key
	}
	return &lockdv1.ListEventsResponse{
		Events: events, NextPageToken: found.Next, ReplicasAnswered: count(found.Answered),
		ReplicasAsked: count(found.Asked), StoreError: found.Unasked, Memories: fromMemories(found.Memories),
	}, nil
}

// whats are the kinds of events, on the wire.
var whats = map[history.What]lockdv1.EventInfo_What{
	history.Granted:      lockdv1.EventInfo_WHAT_GRANTED,
	history.Queued:       lockdv1.EventInfo_WHAT_QUEUED,
	history.Left:         lockdv1.EventInfo_WHAT_LEFT,
	history.Released:     lockdv1.EventInfo_WHAT_RELEASED,
	history.HandedOver:   lockdv1.EventInfo_WHAT_HANDED_OVER,
	history.Lost:         lockdv1.EventInfo_WHAT_LOST,
	history.Forced:       lockdv1.EventInfo_WHAT_FORCED,
	history.LimitChanged: lockdv1.EventInfo_WHAT_LIMIT_CHANGED,
	history.MovedAway:    lockdv1.EventInfo_WHAT_MOVED_AWAY,
	history.Resumed:      lockdv1.EventInfo_WHAT_RESUMED,
}

func fromEvent(e inspect.Event) *lockdv1.EventInfo {
	info := &lockdv1.EventInfo{
		What: whats[e.What], Age: optional(e.Age), Replica: e.Replica, Kind: fromKind(e.Kind), Owner: string(e.Owner),
		SessionId: e.Session, Annotation: e.Annotation, Fence: uint64(e.Fence), Permits: e.Permits,
		Waited: optional(e.Waited), Held: optional(e.Held), Lease: optional(e.Lease),
	}
	if c := e.Client; c != nil {
		info.ClientName, info.Peer, info.Identity = c.Name, c.Peer, c.Identity
	}
	if e.Why != nil {
		info.Cause, info.By, info.Why = e.Why.Cause, e.Why.By, e.Why.Text
	}
	return info
}

func fromMemories(all []inspect.Memory) (infos []*lockdv1.ReplicaMemory) {
	for _, m := range all {
		infos = append(infos, &lockdv1.ReplicaMemory{Replica: m.Name, Reach: optional(m.Reach), Gone: optional(m.Gone)})
	}
	return infos
}

// orders are the measures by which names are busy, on the wire.
var orders = map[lockdv1.ListBusiestRequest_Order]inspect.Order{
	lockdv1.ListBusiestRequest_ORDER_HELD:     inspect.ByHeld,
	lockdv1.ListBusiestRequest_ORDER_TURNOVER: inspect.ByTurnover,
}

// ListBusiest lists the names that were used most. Hidden names must not take the room of others.
func (h *inspectService) ListBusiest(
	ctx context.Context, r *lockdv1.ListBusiestRequest,
) (*lockdv1.ListBusiestResponse, error) {
	window := defaultWindow
	if err := setPast(&window, "window", r.GetWindow()); err != nil {
		return nil, err
	}
	if window <= 0 {
		window = defaultWindow
	}
	who, size := callerOf(ctx), pageSize(r.GetPageSize())
	most := size
	if !who.seesAll() {
		most = maxPage
	}
	found, err := h.b.BusiestEverywhere(ctx, r.GetPrefix(), window, orders[r.GetOrder()], most)
	if err != nil {
		return nil, err
	}
	found.Names = slices.DeleteFunc(found.Names, func(b inspect.Busy) bool { return !who.sees(b.Name) })
	names, _ := listed(found.Names[:min(len(found.Names), size)], pageBytes, fromBusy)
	return &lockdv1.ListBusiestResponse{
		Names: names, ReplicasAnswered: count(found.Answered), ReplicasAsked: count(found.Asked),
		StoreError: found.Unasked, Memories: fromMemories(found.Memories),
	}, nil
}

func fromBusy(b inspect.Busy) *lockdv1.BusyInfo {
	return &lockdv1.BusyInfo{
		Name: b.Name, Waiters: count(b.Waiters), LongestWait: optional(b.Longest), Holders: count(b.Holders),
		Waiting: b.Waiting, Held: b.Held, Turnover: b.Turnover,
	}
}
