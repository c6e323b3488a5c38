package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// inspectView is what inspect prints.
type inspectView struct {
	lockView

	Holds []holderView `json:"holds"`
	Queue []waiterView `json:"queue"`
	// Replicas is how many were asked, Silent how many of them did not answer: what those know is missing.
	Replicas uint32 `json:"replicas"`
	Silent   uint32 `json:"replicas_silent"`
	// StoreError is why the store could not be asked, empty if it was. Then the rest is what replicas remember.
	StoreError string `json:"store_error"`
}

// holderView is who holds a lock.
type holderView struct {
	partyView

	Origin    string            `json:"origin"` // session, unary, redisson, other; empty if it is not known
	Labels    map[string]string `json:"labels"`
	TTL       *int64            `json:"ttl_ms"` // null if it has no end
	Auto      bool              `json:"auto"`
	Fence     uint64            `json:"fence"`
	HoldCount uint32            `json:"hold_count"`
	Permits   uint32            `json:"permits"`
}

// waiterView is a request that waits.
type waiterView struct {
	partyView

	Position uint32 `json:"position"`     // 0 = the next one
	TimeLeft *int64 `json:"time_left_ms"` // null if it waits for ever
}

func newInspect(o *options) *cobra.Command {
	var most uint32
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show who holds a name and who waits for it",
		Long: `inspect shows who holds a name and who waits for it, on all replicas and in other programs on the same
Redis. The waiters of a fair lock are shown in their order; those of other kinds by replica, the next one of
each first.`,
		Args: exactly(1),
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			v, err := s.inspect(ctx, args[0], most)
			if err == nil && v.unknown() {
				err = errUnknownName
			}
			return shown{json: v, text: v.text}, err
		}),
	}
	cmd.Flags().Uint32Var(&most, "queue", 100, "how many of those who wait to show at most")
	return cmd
}

// errUnknownName is a name that is free and left no trace.
var errUnknownName = errors.New("nothing is known of this name: nobody holds it or waits for it, and nobody did lately")

func (v inspectView) unknown() bool {
	return !v.Held && v.Fence == 0 && v.Limit == 0 && v.Holders == 0 && v.waiting() == 0
}

// inspect asks for at most so many waiters.
func (s *services) inspect(ctx context.Context, name string, most uint32) (inspectView, error) {
	resp, err := ask(ctx, s, s.reads.Inspect, &lockdv1.InspectRequest{Name: name, MaxWaiters: most})
	var missing silence
	missing.add(resp)
	v := inspectView{
		lockView: viewLock(resp.GetLock()), Holds: []holderView{}, Queue: []waiterView{}, // printed as [] if there are none
		Replicas: missing.asked, Silent: missing.silent, StoreError: missing.store,
	}
	for _, h := range resp.GetHolders() {
		v.Holds = append(v.Holds, viewHolder(h))
	}
	for _, w := range resp.GetWaiters() {
		v.Queue = append(v.Queue, viewWaiter(w))
		v.Waiters = max(v.Waiters, uint32(len(v.Queue))) //nolint:gosec // no message has more
	}
	return v, err
}

func viewHolder(h *lockdv1.HolderInfo) holderView {
	origins := map[lockdv1.HolderInfo_Origin]string{
		lockdv1.HolderInfo_ORIGIN_SESSION: "session", lockdv1.HolderInfo_ORIGIN_UNARY: "unary",
		lockdv1.HolderInfo_ORIGIN_OTHER: "other", lockdv1.HolderInfo_ORIGIN_REDISSON: "redisson",
	}
	return holderView{
		partyView: viewParty(h), Origin: origins[h.GetOrigin()], Labels: viewLabels(h.GetLabels()),
		TTL: viewTime(h.GetTtl()), Auto: h.GetAuto(), Fence: h.GetFence(),
		HoldCount: h.GetHoldCount(), Permits: h.GetPermits(),
	}
}

// viewLabels are printed as {} if there are none.
func viewLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

func viewWaiter(w *lockdv1.WaiterInfo) waiterView {
	return waiterView{partyView: viewParty(w), Position: w.GetPosition(), TimeLeft: viewTime(w.GetTimeLeft())}
}

func (v inspectView) text(p *screen) {
	rows := [][]string{
		{"name", v.Name},
		{"kind", dash(v.Kind)},
		{"held", strconv.FormatBool(v.Held)},
		{"holders", v.holders()},
		{"fence", strconv.FormatUint(v.Fence, 10)},
		{"ttl", milliseconds(v.TTL)},
		{"waiters", number(v.waiting())},
	}
	if v.Members > 0 {
		rows = append(rows, []string{"members", number(v.Members)})
	}
	if v.StoreError != "" {
		rows = append(rows, []string{"store", v.StoreError + ": this is what the replica remembers, and may be over"})
	}
	if v.Silent > 0 {
		rows = append(rows, []string{"replicas", silence{asked: v.Replicas, silent: v.Silent}.replicas()})
	}
	p.table(rows)
	if len(v.Holds) > 0 {
		p.line("")
		rows := [][]string{{"HELD BY", "KIND", "COUNT", "SINCE", "TTL", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER"}}
		for _, h := range v.Holds {
			rows = append(rows, []string{
				h.by(), dash(h.Kind), number(max(h.HoldCount, h.Permits)), milliseconds(h.Age), milliseconds(h.TTL),
				dash(h.Address), dash(h.Replica), dash(h.Annotation), dash(h.Owner),
			})
		}
		p.table(rows)
	}
	if len(v.Queue) > 0 {
		p.line("")
		printQueue(p, v.Queue)
	}
}

// by is who holds a lock, as a person would say it.
func (h holderView) by() string {
	switch {
	case h.Client != "":
		return h.Client
	case h.Origin == "redisson":
		return "a thread of Redisson"
	case h.Origin == "other":
		return "another program"
	case h.Origin == "unary":
		return "a unary lease"
	case h.Origin == "session":
		return "a session"
	default:
		return "not known"
	}
}

func printQueue(p *screen, queue []waiterView) {
	rows := [][]string{{"POSITION", "KIND", "AGE", "TIME LEFT", "CLIENT", "ADDRESS", "REPLICA", "ANNOTATION", "WAITER"}}
	for _, q := range queue {
		rows = append(rows, append([]string{number(q.Position)}, q.columns()...))
	}
	p.table(rows)
}

func (v waiterView) columns() []string {
	return []string{
		dash(v.Kind), milliseconds(v.Age), milliseconds(v.TimeLeft), dash(v.Client), dash(v.Address), dash(v.Replica),
		dash(v.Annotation), dash(v.Owner),
	}
}

const pageSize = 1000

// filter are the flags that narrow a list.
type filter struct {
	prefix, client, replica string
	age                     time.Duration
}

func (f *filter) flags(cmd *cobra.Command, names bool) {
	if names {
		cmd.Flags().StringVar(&f.prefix, "prefix", "", "only names that begin with this `text`")
	}
	cmd.Flags().StringVar(&f.client, "client", "", "only clients whose name contains this `text`")
	cmd.Flags().StringVar(&f.replica, "replica", "", "only what this replica serves")
	cmd.Flags().DurationVar(&f.age, "min-age", 0, "only what is that old")
}

func (f *filter) minAge() *durationpb.Duration {
	if f.age <= 0 {
		return nil
	}
	return durationpb.New(f.age)
}

// listedView is one line of ls.
type listedView struct {
	lockView

	Origin  string `json:"origin"` // as that of a holder
	Session string `json:"session"`
	Address string `json:"address"`
	Replica string `json:"replica"`
	Age     *int64 `json:"age_ms"`
}

func newList(o *options) *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the names that are held, and who holds them",
		Long: `ls lists the names that are held, whichever replica or program took them, with one of the holders of
each. With --client, --replica or --min-age it lists the holds of sessions, and looks at those only.`,
		Args: exactly(0),
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			locks, missing, err := s.list(ctx, f)
			return shown{json: locks, text: func(p *screen) { printLocks(p, locks) }, missing: missing}, err
		}),
	}
	f.flags(cmd, true)
	return cmd
}

// list reads all pages. The server may tell a name twice, and in any order.
func (s *services) list(ctx context.Context, f filter) ([]listedView, silence, error) {
	locks := []listedView{} // printed as [] if there is none
	var missing silence
	err := page(func(token string) (string, error) {
		resp, err := ask(ctx, s, s.reads.ListHolds, &lockdv1.ListHoldsRequest{
			Prefix: f.prefix, PageSize: pageSize, PageToken: token, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
		})
		missing.add(resp)
		for _, i := range resp.GetHolds() {
			h := viewParty(i.GetHolder())
			locks = append(locks, listedView{
				lockView: viewLock(i.GetLock()), Origin: viewHolder(i.GetHolder()).Origin, Session: h.Session,
				Address: h.Address, Replica: h.Replica, Age: h.Age,
			})
		}
		return resp.GetNextPageToken(), err
	})
	names := f == filter{prefix: f.prefix} // each is told once; otherwise each hold
	if errors.Is(err, client.ErrUnsupported) && names {
		locks, err = s.listNames(ctx, f.prefix)
	}
	same := func(a, b listedView) int {
		if a.Name == b.Name && !names {
			return cmp.Compare(a.Holder, b.Holder)
		}
		return cmp.Compare(a.Name, b.Name)
	}
	slices.SortFunc(locks, same)
	return slices.CompactFunc(locks, func(a, b listedView) bool { return same(a, b) == 0 }), missing, err
}

// listNames is list for a server that does not know ListHolds.
func (s *services) listNames(ctx context.Context, prefix string) ([]listedView, error) {
	locks := []listedView{}
	err := page(func(token string) (string, error) {
		resp, err := ask(ctx, s, s.locks.List, &lockdv1.ListRequest{Prefix: prefix, PageSize: pageSize, PageToken: token})
		for _, l := range resp.GetLocks() {
			locks = append(locks, listedView{lockView: viewLock(l)})
		}
		return resp.GetNextPageToken(), err
	})
	return locks, err
}

func printLocks(p *screen, locks []listedView) {
	rows := [][]string{{
		"NAME", "KIND", "SINCE", "TTL", "FENCE", "HOLDERS", "WAITERS", "HELD BY", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER",
	}}
	for _, l := range locks {
		by := holderView{partyView: partyView{Client: l.Client}, Origin: l.Origin}.by()
		rows = append(rows, []string{
			l.Name, dash(l.Kind), milliseconds(l.Age), milliseconds(l.TTL), strconv.FormatUint(l.Fence, 10), l.holders(),
			number(l.waiting()), by, dash(l.Address), dash(l.Replica), dash(l.Annotation), dash(l.Holder),
		})
	}
	p.table(rows)
}

// waitingView is one line of waiters without a name.
type waitingView struct {
	Name string `json:"name"`
	waiterView
}

func newWaiters(o *options) *cobra.Command {
	var most uint32
	var f filter
	cmd := &cobra.Command{
		Use:   "waiters [NAME]",
		Short: "List who waits for a name, the next one first, or for any",
		Long: `waiters lists who waits for a name, on all replicas. The waiters of a fair lock are shown in their
order, those of other programs included; those of other kinds by replica, the next one of each first. Without a
NAME it lists the requests of all replicas that wait for any, the one that waits longest first.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && f != (filter{}) {
				return usagef("usage: lockctl waiters NAME, or lockctl waiters with --prefix, --client, --replica or --min-age")
			}
			return nil
		},
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			if len(args) == 0 {
				return s.waitersOfAny(ctx, f, most)
			}
			v, err := s.inspect(ctx, args[0], most)
			return shown{
				json: v.Queue, text: func(p *screen) { printQueue(p, v.Queue) },
				missing: silence{v.Replicas, v.Silent, v.StoreError},
			}, err
		}),
	}
	cmd.Flags().Uint32Var(&most, "most", 1000, "how many to show at most")
	f.flags(cmd, true)
	return cmd
}

// waitersOfAny lists the requests that wait for any name.
func (s *services) waitersOfAny(ctx context.Context, f filter, most uint32) (shown, error) {
	resp, err := ask(ctx, s, s.reads.ListWaiters, &lockdv1.ListWaitersRequest{
		PageSize: most, Prefix: f.prefix, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
	})
	all := []waitingView{} // printed as [] if there is none
	rows := [][]string{{"NAME", "KIND", "SINCE", "TIME LEFT", "CLIENT", "ADDRESS", "REPLICA", "ANNOTATION", "WAITER"}}
	for _, w := range resp.GetWaiters() {
		v := waitingView{Name: w.GetName(), waiterView: viewWaiter(w)}
		all, rows = append(all, v), append(rows, append([]string{v.Name}, v.columns()...))
	}
	v := shown{json: all, text: func(p *screen) { p.table(rows) }}
	v.missing.add(resp)
	return v, err
}
