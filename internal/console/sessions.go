package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

type foundSessions struct {
	*lockdv1.ListSessionsResponse
	asking
}

func (a *asker) sessions(ctx context.Context, in *lockdv1.ListSessionsRequest) (*foundSessions, error) {
	page, err := a.inspect.ListSessions(ctx, in)
	if err != nil {
		return nil, err
	}
	f := &foundSessions{ListSessionsResponse: page}
	f.add(page, page.GetStoreError())
	return f, nil
}

// lookSessions finds sessions.
func lookSessions(ctx context.Context, _ *Console, a *asker, q url.Values) (any, error) {
	return a.sessions(ctx, &lockdv1.ListSessionsRequest{
		Client: q.Get("client"), Replica: q.Get("replica"), Detached: q.Get("detached") != "", PageToken: q.Get("token"),
		PageSize: rowsOfPage,
	})
}

type foundSession struct {
	asking
	*lockdv1.SessionInfo // nil: none that answered has it
	Holds                []*lockdv1.HoldInfo
	Waits                []*lockdv1.WaiterInfo
	Cut                  bool // there may be more of them
}

// lookSession finds a session, what it holds and what it waits for.
func lookSession(ctx context.Context, _ *Console, a *asker, q url.Values) (any, error) {
	id := q.Get("id")
	// The token of a page is the last id before it. At most 16 ids have all but their last letter in common.
	before := &lockdv1.ListSessionsRequest{PageToken: id[:max(len(id)-1, 0)], PageSize: 16}
	page, err := a.sessions(ctx, before)
	if err != nil {
		return nil, err
	}
	f := &foundSession{asking: page.asking}
	at := slices.IndexFunc(page.GetSessions(), func(s *lockdv1.SessionInfo) bool { return s.GetSessionId() == id })
	if at < 0 || id == "" {
		return f, nil
	}
	f.SessionInfo = page.GetSessions()[at]
	holds, err := a.inspect.ListHolds(ctx, &lockdv1.ListHoldsRequest{
		PageSize: mostHolds, Client: f.GetClientName(), Replica: f.GetReplica(), MinAge: durationpb.New(1),
	})
	if err != nil {
		return nil, err
	}
	waits, err := a.inspect.ListWaiters(ctx, &lockdv1.ListWaitersRequest{
		PageSize: mostWaiters, Client: f.GetClientName(), Replica: f.GetReplica(),
	})
	if err != nil {
		return nil, err
	}
	f.Holds = slices.DeleteFunc(holds.GetHolds(), func(h *lockdv1.HoldInfo) bool {
		return h.GetHolder().GetSessionId() != id
	})
	f.Waits = slices.DeleteFunc(waits.GetWaiters(), func(w *lockdv1.WaiterInfo) bool { return w.GetSessionId() != id })
	f.Cut = len(f.Holds) > rowsOfPage || len(f.Waits) > rowsOfPage || len(f.Holds) < int(f.GetLocks())
	f.Holds, f.Waits = f.Holds[:min(len(f.Holds), rowsOfPage)], f.Waits[:min(len(f.Waits), rowsOfPage)]
	return f, nil
}

// clientRow is a client of the clients file, or one that has sessions, and what all its sessions have.
type clientRow struct {
	Client
	Sessions, Locks, Waiters, Watches uint32
}

type foundClients struct {
	asking
	Rows []*clientRow
	Cut  bool
	File bool // the rows have what the clients file says
}

// lookClients counts what the sessions of clients have, beside what the clients file says, if the asker may know it.
func lookClients(ctx context.Context, c *Console, a *asker, _ url.Values) (any, error) {
	f, rows := &foundClients{}, map[string]*clientRow{}
	row := func(of Client) *clientRow {
		if rows[of.Name] == nil {
			rows[of.Name] = &clientRow{Client: of}
			f.Rows = append(f.Rows, rows[of.Name])
		}
		return rows[of.Name]
	}
	who, err := a.inspect.WhoAmI(ctx, &lockdv1.WhoAmIRequest{})
	if err != nil {
		return nil, err
	}
	if f.File = slices.Contains(who.GetAdmin(), "examine") && a.client != "" && c.cfg.Clients != nil; f.File {
		for _, of := range c.cfg.Clients() {
			row(of)
		}
	}
	in := &lockdv1.ListSessionsRequest{PageSize: mostHolds}
	for range mostPages {
		page, err := a.sessions(ctx, in)
		if err != nil {
			return nil, err
		}
		f.add(page, page.GetStoreError())
		for _, s := range page.GetSessions() {
			r := row(Client{Name: s.GetIdentity()})
			r.Sessions++
			r.Locks += s.GetLocks()
			r.Waiters += s.GetWaiters()
			r.Watches += s.GetWatches()
		}
		if in.PageToken = page.GetNextPageToken(); in.PageToken == "" {
			break
		}
	}
	f.Cut = in.PageToken != ""
	slices.SortFunc(f.Rows, func(a, b *clientRow) int { return cmp.Compare(a.Name, b.Name) })
	f.Rows = f.Rows[:min(len(f.Rows), rowsOfPage)]
	return f, nil
}

// whoAmI says who looks, and what he may.
func whoAmI(ctx context.Context, _ *Console, a *asker, _ url.Values) (any, error) {
	return a.inspect.WhoAmI(ctx, &lockdv1.WhoAmIRequest{})
}
