package grpcapi

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// filtered is what the requests for lists have in common.
type filtered interface {
	GetClient() string
	GetReplica() string
	GetMinAge() *durationpb.Duration
}

func toFilter(prefix string, r filtered) (inspect.Filter, error) {
	age, err := toDuration("min_age", r.GetMinAge())
	f := inspect.Filter{Prefix: prefix, Client: r.GetClient(), Replica: r.GetReplica()}
	if age != nil {
		f.MinAge = max(*age, 0)
	}
	return f, err
}

func fromSessionInfo(i inspect.Session) *lockdv1.SessionInfo {
	return &lockdv1.SessionInfo{
		SessionId: i.ID, ClientName: i.Client.Name, Labels: i.Client.Labels, Peer: i.Client.Peer,
		Age: durationpb.New(i.Age), Silence: durationpb.New(i.Silence), Detached: optional(i.Detached),
		Locks: count(i.Locks), Waiters: count(i.Waiters), Watches: count(i.Watches), Replica: i.Replica,
		Identity: i.Client.Identity,
	}
}

// ListSessions lists the sessions of all replicas. The page token is the last id.
func (h *inspectService) ListSessions(
	ctx context.Context, r *lockdv1.ListSessionsRequest,
) (*lockdv1.ListSessionsResponse, error) {
	f, err := toFilter("", r)
	if err != nil {
		return nil, err
	}
	f.Detached = r.GetDetached()
	who := callerOf(ctx)
	if !who.seesAll() {
		f.Identity = who.Client()
	}
	infos, next, asking, err := h.b.SessionsEverywhere(ctx, f, r.GetPageToken(), pageSize(r.GetPageSize()))
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i inspect.Session) bool {
		return f.Identity != "" && i.Client.Identity != f.Identity
	})
	sessions, whole := listed(infos, pageBytes, fromSessionInfo)
	if !whole {
		next = infos[len(sessions)-1].ID
	}
	return &lockdv1.ListSessionsResponse{
		Sessions: sessions, NextPageToken: next,
		ReplicasAnswered: count(asking.Answered), ReplicasAsked: count(asking.Asked), StoreError: asking.Unasked,
	}, nil
}

// ListWaiters lists the requests that wait for a name, or for any.
func (h *inspectService) ListWaiters(
	ctx context.Context, r *lockdv1.ListWaitersRequest,
) (*lockdv1.ListWaitersResponse, error) {
	var in inspect.Inspection
	who, size := callerOf(ctx), pageSize(r.GetPageSize())
	f, err := toFilter(r.GetPrefix(), r)
	switch name := r.GetName(); {
	case name != "":
		in, err = h.b.Inspect(ctx, name, 1, size)
	case err == nil && who.seesAll():
		in.Waiters, in.Asking, err = h.b.WaitersEverywhere(ctx, f, size)
	case err == nil: // hidden waiters must not take the room of others
		in.Waiters, in.Asking, err = h.b.WaitersEverywhere(ctx, f, maxPage)
	}
	if err != nil {
		return nil, err
	}
	in.Waiters = slices.DeleteFunc(in.Waiters, func(w inspect.Waiter) bool { return !who.sees(w.Name) })
	waiters, _ := listed(in.Waiters[:min(len(in.Waiters), size)], pageBytes, fromWaiter)
	return &lockdv1.ListWaitersResponse{
		Waiters:          waiters,
		ReplicasAnswered: count(in.Answered), ReplicasAsked: count(in.Asked), StoreError: in.Unasked,
	}, nil
}

// The prefixes of page tokens say which of its two lists ListHolds goes on with.
const (
	leasesToken = "l:"
	namesToken  = "n:"
)

// ListHolds lists what is held: with a filter leases of sessions, else all names that the store knows.
func (h *inspectService) ListHolds(ctx context.Context,
	r *lockdv1.ListHoldsRequest,
) (*lockdv1.ListHoldsResponse, error) {
	f, err := toFilter(r.GetPrefix(), r)
	if err != nil {
		return nil, err
	}
	size, token := pageSize(r.GetPageSize()), r.GetPageToken()
	kind := namesToken
	if f.Client != "" || f.Replica != "" || f.MinAge > 0 || strings.HasPrefix(token, leasesToken) {
		kind = leasesToken
	}
	after, ours := strings.CutPrefix(token, kind)
	if token != "" && !ours {
		return nil, lock.Invalid("page_token", lock.ReasonPage, "not a token of this list")
	}
	if kind == leasesToken {
		return h.leasesEverywhere(ctx, f, after, size)
	}
	if _, left := callerOf(ctx).from(f.Prefix, ""); !left {
		return &lockdv1.ListHoldsResponse{}, nil
	}
	infos, next, asking, err := h.b.NamesEverywhere(ctx, r.GetPrefix(), after, size)
	if err != nil && lock.Retriable(err) && token == "" { // the leases that replicas know are better than nothing
		resp, failure := h.leasesEverywhere(ctx, f, "", size)
		if failure == nil && resp.GetStoreError() == "" {
			resp.StoreError = lock.ErrUnavailable.Error()
		}
		return resp, failure
	}
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i inspect.Listed) bool { return !callerOf(ctx).sees(i.Lock.Name) })
	holds, _ := listed(infos, math.MaxInt, func(i inspect.Listed) *lockdv1.HoldInfo { return fromHeld(i.Lock, i.Holder) })
	return holdsPage(holds, namesToken, next, asking), nil
}

func fromHeld(of session.LockInfo, by inspect.Holder) *lockdv1.HoldInfo {
	return &lockdv1.HoldInfo{Lock: fromLock(of), Holder: fromHolder(by)}
}

func holdsPage(holds []*lockdv1.HoldInfo, kind, next string, asking inspect.Asking) *lockdv1.ListHoldsResponse {
	if next != "" {
		next = kind + next
	}
	return &lockdv1.ListHoldsResponse{
		Holds: holds, NextPageToken: next,
		ReplicasAnswered: count(asking.Answered), ReplicasAsked: count(asking.Asked), StoreError: asking.Unasked,
	}
}

func (h *inspectService) leasesEverywhere(
	ctx context.Context, f inspect.Filter, after string, size int,
) (*lockdv1.ListHoldsResponse, error) {
	who := callerOf(ctx)
	after, left := who.from(f.Prefix, after)
	if !left {
		return &lockdv1.ListHoldsResponse{}, nil
	}
	infos, next, asking, err := h.b.LeasesEverywhere(ctx, f, after, size)
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(l inspect.Leased) bool { return !who.sees(l.Name) })
	if next != "" {
		if next, left = who.from(f.Prefix, next); !left {
			next = ""
		}
	}
	holds, whole := listed(infos, pageBytes, func(i inspect.Leased) *lockdv1.HoldInfo {
		return fromHeld(lockOf(i), i.Holder)
	})
	if !whole {
		next = infos[len(holds)-1].Key
	}
	return holdsPage(holds, leasesToken, next, asking), nil
}

// lockOf is what a lease tells of its name.
func lockOf(l inspect.Leased) session.LockInfo {
	i := session.LockInfo{Client: l.Holder.Client.Name, Annotation: l.Holder.Annotation}
	i.Name, i.Kind, i.Held, i.Owner = l.Name, l.Holder.Kind, true, l.Holder.Owner
	i.Count, i.Fence, i.TTL, i.Holders = l.Holder.Count, l.Holder.Fence, max(l.Holder.TTL, time.Millisecond), 1
	if l.Holder.Kind == lock.Semaphore {
		i.Holders = l.Holder.Permits
	}
	return i
}
