package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// view is one of the pages. The template of its part that changes has its name.
type view struct {
	Name, Path, Title string
	params            []string // what it can be asked
	look, head        lookup   // of what changes, and of the rest; head may be nil
}

// lookup finds what a page shows to somebody.
type lookup func(ctx context.Context, c *Console, a *asker, q url.Values) (any, error)

// Listed says whether it is offered on all pages.
func (v *view) Listed() bool { return v.Name != "lock" && v.Name != "session" }

// views are all pages, in the order in which they are offered.
var views = []*view{
	{"locks", "/", "Locks", []string{"prefix", "kind", "holder", "age", "token"}, lookLocks, nil},
	{"sessions", "/sessions", "Sessions", []string{"client", "replica", "detached", "token"}, lookSessions, nil},
	{"blockers", "/blockers", "Blockers", nil, lookBlockers, nil},
	{"health", "/health", "Health", nil, lookHealth, nil},
	{"clients", "/clients", "Clients", nil, lookClients, whoAmI},
	{"lock", "/lock", "Lock", []string{"name"}, lookLock, mayAct},
	{"session", "/session", "Session", []string{"id"}, lookSession, mayEnd},
}

// query is what of a query the view knows, as texts that are not empty.
func (v *view) query(q url.Values) url.Values {
	out := url.Values{}
	for _, p := range v.params {
		if text := q.Get(p); text != "" {
			out.Set(p, text)
		}
	}
	return out
}

// asking says what is missing in what was found.
type asking struct {
	Answered, Asked uint32
	Unasked         string // why the store, or replicas through it, were not asked
}

// add notes what is missing in one more answer. Of several the one counts in which most replicas are missing.
func (a *asking) add(answer interface {
	GetReplicasAnswered() uint32
	GetReplicasAsked() uint32
}, storeError string,
) {
	if missing := answer.GetReplicasAsked() - answer.GetReplicasAnswered(); a.Asked == 0 || missing > a.Asked-a.Answered {
		a.Asked, a.Answered = answer.GetReplicasAsked(), answer.GetReplicasAnswered()
	}
	a.Unasked = cmp.Or(a.Unasked, storeError)
}

// Missing are the replicas that did not answer.
func (a *asking) Missing() uint32 { return a.Asked - a.Answered }

// How much a page has.
const (
	rowsOfPage  = 200
	mostPages   = 5 // of a list, as these may be short
	mostWaiters = 1000
	mostHolds   = 1000 // of a page of a list
)

// lockRow is a name in the list of locks.
type lockRow struct {
	Name    string
	Kind    lockdv1.LockKind
	Lock    *lockdv1.LockState  // nil: who holds it is not among the holds of this page
	Holder  *lockdv1.HolderInfo // one of them
	Waiters int
	Longest *durationpb.Duration
	Stuck   *stuck // the holder waits itself
}

type foundLocks struct {
	asking
	Rows []*lockRow
	More string // the token of the page after it
	Cut  bool   // of those who wait only the first are counted
	Some bool   // only what sessions hold is in the list
}

// lookLocks finds what is held and what is waited for. The API filters by holder and age, this function by kind.
func lookLocks(ctx context.Context, _ *Console, a *asker, q url.Values) (any, error) {
	age, err := ageOf(q.Get("age"))
	if err != nil {
		return nil, err
	}
	f := &foundLocks{Some: q.Get("holder") != "" || age != nil}
	rows := map[string]*lockRow{}
	in := &lockdv1.ListHoldsRequest{
		Prefix: q.Get("prefix"), Client: q.Get("holder"), MinAge: age, PageToken: q.Get("token"), PageSize: rowsOfPage,
	}
	for range mostPages {
		page, err := a.inspect.ListHolds(ctx, in)
		if err != nil {
			return nil, err
		}
		f.add(page, page.GetStoreError())
		for _, h := range page.GetHolds() {
			name := h.GetLock().GetName()
			rows[name] = &lockRow{Name: name, Kind: h.GetLock().GetKind(), Lock: h.GetLock(), Holder: h.GetHolder()}
		}
		if f.More = page.GetNextPageToken(); f.More == "" || len(rows) >= rowsOfPage {
			break
		}
		in.PageToken = f.More
	}
	waiters, err := a.waiters(ctx, q.Get("prefix"), &f.asking)
	if err != nil {
		return nil, err
	}
	f.Cut = len(waiters) >= mostWaiters
	waits := waitsOf(waiters)
	for _, w := range waiters {
		row := rows[w.GetName()]
		if row == nil {
			if f.Some || q.Get("token") != "" { // it is filtered out, or of another page
				continue
			}
			row = &lockRow{Name: w.GetName(), Kind: w.GetKind()}
			rows[row.Name] = row
		}
		row.Waiters++
		if row.Longest == nil || w.GetAge().AsDuration() > row.Longest.AsDuration() {
			row.Longest = w.GetAge()
		}
	}
	for _, row := range rows {
		if row.Waiters > 0 {
			row.Stuck = waits.Of(row.Holder)
		}
		if k := q.Get("kind"); k == "" || k == kindOf(row.Kind) {
			f.Rows = append(f.Rows, row)
		}
	}
	slices.SortFunc(f.Rows, func(a, b *lockRow) int {
		return cmp.Or(cmp.Compare(b.Longest.AsDuration(), a.Longest.AsDuration()), cmp.Compare(a.Name, b.Name))
	})
	f.Rows = f.Rows[:min(len(f.Rows), 2*rowsOfPage)]
	return f, nil
}

// waiters are those who wait for any name, the longest first.
func (a *asker) waiters(ctx context.Context, prefix string, missing *asking) ([]*lockdv1.WaiterInfo, error) {
	all, err := a.inspect.ListWaiters(ctx, &lockdv1.ListWaitersRequest{Prefix: prefix, PageSize: mostWaiters})
	if err != nil {
		return nil, err
	}
	missing.add(all, all.GetStoreError())
	return all.GetWaiters(), nil
}

func ageOf(text string) (*durationpb.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, status.Error(codes.InvalidArgument, "An age is a number with its unit, such as 30s or 5m.")
	}
	return durationpb.New(d), nil
}

type foundLock struct {
	*lockdv1.InspectResponse
	asking
	Known  bool
	Waits  waits   // for any name
	Events []event // the newest first
	Older  bool    // there are events before these
	Failed string  // why there are no events
}

// historyTime is how long a history counts: it is more work than the rest.
const historyTime = 3 * time.Second

// lookLock finds who holds a name, who waits for it, and what happened to it.
func lookLock(ctx context.Context, c *Console, a *asker, q url.Values) (any, error) {
	name := q.Get("name")
	in, err := a.inspect.Inspect(ctx, &lockdv1.InspectRequest{Name: name})
	if err != nil {
		return nil, err
	}
	f := &foundLock{InspectResponse: in, Known: in.GetLock().GetHeld() || len(in.GetWaiters()) > 0}
	f.add(in, in.GetStoreError())
	if len(in.GetHolders()) > 0 {
		all, err := a.waiters(ctx, "", &f.asking)
		if err != nil {
			return nil, err
		}
		f.Waits = waitsOf(all)
	}
	look := func() (any, error) { return a.history(ctx, name) }
	got, err := c.looks.get(ctx, a.client+"\x00history\x00"+name, historyTime, look)
	if err != nil {
		f.Failed = explained(err)
		return f, nil
	}
	h := got.(history)
	f.Events, f.Older = h.events, h.older
	return f, nil
}

type history struct {
	events []event
	older  bool
}

// event is something that happened, and when.
type event struct {
	*lockdv1.EventInfo
	at time.Time
}

// Ago is for how long it is over.
func (e event) Ago() *durationpb.Duration { return durationpb.New(time.Since(e.at)) }

// Clock is when it was.
func (e event) Clock() string {
	if time.Since(e.at) > 12*time.Hour {
		return e.at.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return e.at.UTC().Format("15:04:05 UTC")
}

const mostEvents = 60

// history has the newest events of a name. The API has the oldest first. So it is asked for more and more of the past,
// until there is enough, or more than a page.
func (a *asker) history(ctx context.Context, name string) (h history, err error) {
	for _, past := range []time.Duration{time.Second, 20 * time.Second, 5 * time.Minute, time.Hour, 0} {
		in := &lockdv1.ListEventsRequest{Name: name, PageSize: mostHolds}
		if past > 0 {
			in.MaxAge = durationpb.New(past)
		}
		page, err := a.inspect.ListEvents(ctx, in)
		if err != nil {
			return h, err
		}
		if page.GetNextPageToken() != "" && len(h.events) > 0 { // the newest are not on it
			break
		}
		now := time.Now()
		h.events, h.older = nil, past > 0
		for _, e := range page.GetEvents() {
			h.events = append(h.events, event{e, now.Add(-e.GetAge().AsDuration())})
		}
		if len(h.events) >= mostEvents || page.GetNextPageToken() != "" {
			break
		}
	}
	slices.Reverse(h.events)
	if len(h.events) > mostEvents {
		h.events, h.older = h.events[:mostEvents], true
	}
	return h, nil
}
