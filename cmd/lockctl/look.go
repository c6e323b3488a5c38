package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// lockView is how a lock is shown.
type lockView struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"` // empty if it cannot be told
	Held       bool    `json:"held"`
	Holder     string  `json:"holder" of:"held_by"`
	Client     string  `json:"client"`
	Fence      uint64  `json:"fence"`
	TTL        *millis `json:"ttl_ms"` // null if it is not held, or has no end
	HoldCount  uint32  `json:"hold_count"`
	Waiters    uint32  `json:"waiters"`
	Annotation string  `json:"annotation"`
	Holders    uint32  `json:"holders"`
	Limit      uint32  `json:"limit"`
	Queued     uint32  `json:"queued"`
	Members    uint32  `json:"members,omitempty"`
}

// holders is how many hold it, for a semaphore of how many permits.
func (v lockView) holders() string {
	if v.Limit > 0 {
		return fmt.Sprintf("%d/%d", v.Holders, v.Limit)
	}
	return fmt.Sprint(v.Holders)
}

// waiting is how many are known to wait: at all replicas for a fair lock, else at the one that answered.
func (v lockView) waiting() uint32 { return max(v.Waiters, v.Queued) }

// placeView is where the holder of a lock is, or who waits for it.
type placeView struct {
	Session string  `json:"session" of:"session_id"` // empty for a unary call
	Address string  `json:"address" of:"peer"`
	Replica string  `json:"replica"`
	Age     *millis `json:"age_ms"`
}

// partyView is who holds a lock or waits for one.
type partyView struct {
	placeView

	Kind       string `json:"kind"`
	Owner      string `json:"owner"`
	Client     string `json:"client" of:"client_name"`
	Annotation string `json:"annotation"`
}

type holderView struct {
	partyView

	Origin    string            `json:"origin"` // session, unary, redisson, other; empty if it is not known
	Labels    map[string]string `json:"labels"`
	TTL       *millis           `json:"ttl_ms"` // null if it has no end
	Auto      bool              `json:"auto"`
	Fence     uint64            `json:"fence"`
	HoldCount uint32            `json:"hold_count"`
	Permits   uint32            `json:"permits"`
	Identity  string            `json:"identity,omitempty"` // in the server's clients file
	ActorMark string            `json:"actor_mark,omitempty"`
}

// holder is who holds a lock, as a person would say it.
func holder(client, origin string) string {
	if client != "" {
		return client
	}
	switch origin {
	case "redisson":
		return "a thread of Redisson"
	case "other":
		return "another program"
	case "unary":
		return "a unary lease"
	case "session":
		return "a session"
	}
	return "not known"
}

type waiterView struct {
	partyView

	Position  uint32  `json:"position"`     // 0 = the next one
	TimeLeft  *millis `json:"time_left_ms"` // null if it waits for ever
	ActorMark string  `json:"actor_mark,omitempty"`
}

var waiterTitles = []any{"KIND", "AGE", "TIME LEFT", "CLIENT", "ADDRESS", "REPLICA", "ANNOTATION", "WAITER"}

func (w waiterView) columns() []any {
	return []any{w.Kind, w.Age, w.TimeLeft, w.Client, w.Address, w.Replica, w.Annotation, w.Owner}
}

func printQueue(p *screen, queue []waiterView) {
	list(p, queue, func(w waiterView) []any { return append([]any{w.Position}, w.columns()...) },
		append([]any{"POSITION"}, waiterTitles...)...)
}

// inspectView is what inspect prints.
type inspectView struct {
	lockView `of:"lock"`

	Holds []holderView `json:"holds" of:"holders"`
	Queue []waiterView `json:"queue" of:"waiters"`
	silence
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
var errUnknownName = failure{
	exitFailed, reasonUnknownName,
	errors.New("nothing is known of this name: nobody holds it or waits for it, and nobody did lately"),
}

func (v inspectView) unknown() bool {
	return !v.Held && v.Fence == 0 && v.Limit == 0 && v.Holders == 0 && v.waiting() == 0
}

// inspect asks who holds a name and who waits for it. most bounds the waiters.
func (s *services) inspect(ctx context.Context, name string, most uint32) (inspectView, error) {
	resp, err := ask(ctx, s, s.reads.Inspect, &lockdv1.InspectRequest{Name: name, MaxWaiters: most})
	v := view[inspectView](resp)
	v.count()
	v.Waiters = max(v.Waiters, uint32(len(v.Queue))) //nolint:gosec // no message has more
	return v, err
}

func (v inspectView) text(p *screen) {
	rows := [][]any{
		{"name", v.Name},
		{"kind", v.Kind},
		{"held", v.Held},
		{"holders", v.holders()},
		{"fence", v.Fence},
		{"ttl", v.TTL},
		{"waiters", v.waiting()},
	}
	if v.Members > 0 {
		rows = append(rows, []any{"members", v.Members})
	}
	if v.StoreError != "" {
		rows = append(rows, []any{"store", v.StoreError + ": this is what the replica remembers, and may be over"})
	}
	if text := v.missing(); text != "" {
		rows = append(rows, []any{"replicas", text})
	}
	p.table(rows)
	if len(v.Holds) > 0 {
		p.line("")
		list(p, v.Holds, func(h holderView) []any {
			return []any{
				holder(h.Client, h.Origin), h.Kind, max(h.HoldCount, h.Permits), h.Age, h.TTL, h.Address, h.Replica,
				h.Annotation, h.Owner,
			}
		}, "HELD BY", "KIND", "COUNT", "SINCE", "TTL", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER")
	}
	if len(v.Queue) > 0 {
		p.line("")
		printQueue(p, v.Queue)
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

// listedView is one line of ls.
type listedView struct {
	lockView   `of:"lock"`
	originView `of:"holder"`
}

type originView struct {
	Origin string `json:"origin"` // as that of a holder
	placeView
}

func newList(o *options) *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the names that are held, and who holds them",
		Long: `ls lists the names that are held, whichever replica or program took them, with one of the holders of
each. With --client, --replica or --min-age it lists the holds of sessions, and reads those only.`,
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
	locks, missing, err := pages[listedView]("holds", func(token string) (proto.Message, error) {
		return ask(ctx, s, s.reads.ListHolds, &lockdv1.ListHoldsRequest{
			Prefix: f.prefix, PageSize: pageSize, PageToken: token, Client: f.client, Replica: f.replica,
			MinAge: durationpb.New(f.age),
		})
	})
	names := f == filter{prefix: f.prefix} // each is told once; otherwise each hold
	order := func(a, b listedView) int {
		if a.Name == b.Name && !names {
			return strings.Compare(a.Holder, b.Holder)
		}
		return strings.Compare(a.Name, b.Name)
	}
	slices.SortFunc(locks, order)
	return slices.CompactFunc(locks, func(a, b listedView) bool { return order(a, b) == 0 }), missing, err
}

func printLocks(p *screen, locks []listedView) {
	list(p, locks, func(l listedView) []any {
		return []any{
			l.Name, l.Kind, l.Age, l.TTL, l.Fence, l.holders(), l.waiting(), holder(l.Client, l.Origin), l.Address, l.Replica,
			l.Annotation, l.Holder,
		}
	}, "NAME", "KIND", "SINCE", "TTL", "FENCE", "HOLDERS", "WAITERS", "HELD BY", "ADDRESS", "REPLICA", "ANNOTATION",
		"OWNER")
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
			return shown{json: v.Queue, text: func(p *screen) { printQueue(p, v.Queue) }, missing: v.silence}, err
		}),
	}
	cmd.Flags().Uint32Var(&most, "most", 1000, "how many to show at most")
	f.flags(cmd, true)
	return cmd
}

// waitersOfAny lists the requests that wait for any name.
func (s *services) waitersOfAny(ctx context.Context, f filter, most uint32) (shown, error) {
	resp, err := ask(ctx, s, s.reads.ListWaiters, &lockdv1.ListWaitersRequest{
		PageSize: most, Prefix: f.prefix, Client: f.client, Replica: f.replica, MinAge: durationpb.New(f.age),
	})
	v := view[struct {
		Waiters []waitingView `of:"waiters"`
		silence
	}](resp)
	v.count()
	return shown{json: v.Waiters, missing: v.silence, text: func(p *screen) {
		list(p, v.Waiters, func(w waitingView) []any { return append([]any{w.Name}, w.columns()...) },
			append([]any{"NAME"}, waiterTitles...)...)
	}}, err
}

// sessionView is one line of sessions.
type sessionView struct {
	Session string            `json:"session" of:"session_id"`
	Client  string            `json:"client" of:"client_name"`
	Labels  map[string]string `json:"labels"`
	Peer    string            `json:"peer"`
	Replica string            `json:"replica"`
	Age     *millis           `json:"age_ms"`
	Silence *millis           `json:"silence_ms"` // since it was heard last
	Locks   uint32            `json:"locks"`
	Waiters uint32            `json:"waiters"`
	Watches uint32            `json:"watches"`

	Identity string `json:"identity,omitempty"` // in the server's clients file
	// Detached is for how long it has no stream; null while it has one.
	Detached *millis `json:"detached_ms"`
}

func newSessions(o *options) *cobra.Command {
	var f filter
	var detached bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of all replicas",
		Long: `sessions lists the open sessions of all replicas. One without a stream is detached: its client may come
back. With --detached only those are listed, and --min-age then is for how long they have none.`,
		Args: exactly(0),
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			all, missing, err := pages[sessionView]("sessions", func(token string) (proto.Message, error) {
				return ask(ctx, s, s.reads.ListSessions, &lockdv1.ListSessionsRequest{
					PageSize: pageSize, PageToken: token, Client: f.client, Replica: f.replica,
					MinAge: durationpb.New(f.age), Detached: detached,
				})
			})
			return shown{json: all, text: func(p *screen) { printSessions(p, all) }, missing: missing}, err
		}),
	}
	f.flags(cmd, false)
	cmd.Flags().BoolVar(&detached, "detached", false, "only those that have no stream")
	return cmd
}

func printSessions(p *screen, all []sessionView) {
	list(p, all, func(v sessionView) []any {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
			labels = append(labels, key+"="+v.Labels[key])
		}
		return []any{
			v.Session, v.Age, v.Silence, v.Detached, v.Locks, v.Waiters, v.Peer, v.Replica, v.Client,
			strings.Join(labels, ","),
		}
	}, "SESSION", "AGE", "SILENT", "DETACHED", "LOCKS", "WAITERS", "PEER", "REPLICA", "CLIENT", "LABELS")
}

// deadlocksView is what deadlocks prints.
type deadlocksView struct {
	Deadlocks []deadlockView `json:"deadlocks"`
	replicasView
}

// deadlockView is a circle of requests. The youngest is the first member.
type deadlockView struct {
	Members []deadlockMemberView `json:"members"`
	Omitted uint32               `json:"omitted"` // members, after these
}

// deadlockMemberView is a request that waits for what the next member holds.
type deadlockMemberView struct {
	partyView

	Name     string  `json:"name"`
	TimeLeft *millis `json:"time_left_ms"` // null if it waits for ever
	HeldBy   string  `json:"held_by"`
	Fence    uint64  `json:"fence"`
	Fails    bool    `json:"fails"`
}

func newDeadlocks(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "deadlocks",
		Short: "Show requests that wait for each other in a circle",
		Long: `deadlocks shows requests that wait for each other in a circle, on all replicas. Each waits for what the
next one holds, and the last one for what the first one holds. The request that came last is the first one. If
there is any the exit code is 1.

Only requests are shown that name an actor or a holder.`,
		Args: exactly(0),
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			resp, err := ask(ctx, s, s.reads.ListDeadlocks, &lockdv1.ListDeadlocksRequest{})
			v := view[deadlocksView](resp)
			v.count()
			return shown{json: v, text: v.text, code: min(len(v.Deadlocks), exitFailed)}, err
		}),
	}
}

func (v deadlocksView) text(p *screen) {
	if len(v.Deadlocks) == 0 {
		p.line("no deadlocks")
	}
	for i, d := range v.Deadlocks {
		p.line("deadlock %d of %d: each waits for what the next one holds, the last one for the first one",
			i+1, len(v.Deadlocks))
		list(p, d.Members, func(m deadlockMemberView) []any {
			return []any{
				m.Client, m.Address, m.Replica, m.Name, m.Kind, m.Age, m.TimeLeft, m.Annotation, m.Owner, m.HeldBy,
			}
		}, "CLIENT", "ADDRESS", "REPLICA", "WAITS FOR", "KIND", "SINCE", "TIME LEFT", "ANNOTATION", "WAITER", "HELD BY")
		if d.Omitted > 0 {
			p.line("and %d more", d.Omitted)
		}
	}
	if text := v.missing(); text != "" {
		p.line("%s", text)
	}
}
