package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"

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

// lookClients counts what clients have, as far as sessions tell, beside what the clients file says to who may know it.
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
