package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

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

// silence is how many replicas were asked, and did not answer, and why the store could not be asked.
type silence struct {
	asked, silent uint32
	store         string
}

// answered is a response of all replicas.
type answered interface {
	GetReplicasAsked() uint32
	GetReplicasAnswered() uint32
	GetStoreError() string
}

// add takes note of one page.
func (s *silence) add(r answered) {
	s.store = cmp.Or(s.store, r.GetStoreError())
	s.asked = max(s.asked, r.GetReplicasAsked())
	s.silent = max(s.silent, r.GetReplicasAsked()-r.GetReplicasAnswered())
}

// listedView is one line of ls. Its keys are part of what lockctl promises.
type listedView struct {
	lockView
	Origin  string `json:"origin"` // session, unary, redisson, other; empty if it is not known
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				locks, missing, err := s.list(ctx, f)
				if err != nil {
					return fmt.Errorf("ls: %w", err)
				}
				if o.output == outputJSON {
					err = printJSON(cmd.OutOrStdout(), locks)
				} else {
					err = printLocks(cmd.OutOrStdout(), locks)
				}
				return cmp.Or(err, missing.tell(cmd.ErrOrStderr()))
			})
		},
	}
	f.flags(cmd, true)
	return cmd
}

// tell says what is missing.
func (s silence) tell(w io.Writer) error {
	return cmp.Or(printAway(w, s.store), printSilent(w, s.silent, s.asked))
}

// printAway says that the store could not be asked.
func printAway(w io.Writer, why string) error {
	if why == "" {
		return nil
	}
	return printLine(w, "%s: this is what the replica remembers, and what others know is missing", why)
}

// list reads all pages. The server may tell a name twice, and in any order.
func (s *services) list(ctx context.Context, f filter) ([]listedView, silence, error) {
	locks := []listedView{} // printed as [] if there is none
	var missing silence
	err := page(func(token string) (string, error) {
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListHoldsResponse, error) {
			return s.reads.ListHolds(ctx, &lockdv1.ListHoldsRequest{
				Prefix: f.prefix, PageSize: pageSize, PageToken: token, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
			})
		})
		missing.add(resp)
		for _, h := range resp.GetHolds() {
			locks = append(locks, viewListed(h))
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
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListResponse, error) {
			return s.locks.List(ctx, &lockdv1.ListRequest{Prefix: prefix, PageSize: pageSize, PageToken: token})
		})
		for _, l := range resp.GetLocks() {
			locks = append(locks, listedView{lockView: viewLock(l)})
		}
		return resp.GetNextPageToken(), err
	})
	return locks, err
}

func viewListed(i *lockdv1.HoldInfo) listedView {
	h := viewHolder(i.GetHolder())
	return listedView{
		lockView: viewLock(i.GetLock()), Origin: h.Origin, Session: h.Session, Address: h.Address, Replica: h.Replica,
		Age: h.Age,
	}
}

// by is who holds a lock, as a person would say it.
func (v listedView) by() string {
	return holderView{Client: v.Client, Origin: v.Origin}.by()
}

func printLocks(w io.Writer, locks []listedView) error {
	rows := [][]string{{
		"NAME", "KIND", "SINCE", "TTL", "FENCE", "HOLDERS", "WAITERS", "HELD BY", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER",
	}}
	for _, l := range locks {
		rows = append(rows, []string{
			l.Name, dash(l.Kind), milliseconds(l.Age), l.ttl(), strconv.FormatUint(l.Fence, 10), l.holders(),
			number(l.waiting()),
			l.by(), dash(l.Address), dash(l.Replica), dash(l.Annotation), dash(l.Holder),
		})
	}
	return printTable(w, rows)
}

// waitingView is one line of waiters without a name. Its keys are part of what lockctl promises.
type waitingView struct {
	Name string `json:"name"`
	waiterView
}

// waitersOfAny lists the requests that wait for any name.
func (s *services) waitersOfAny(ctx context.Context, f filter, most uint32) ([]waitingView, silence, error) {
	resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListWaitersResponse, error) {
		return s.reads.ListWaiters(ctx, &lockdv1.ListWaitersRequest{
			PageSize: most, Prefix: f.prefix, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
		})
	})
	all := []waitingView{} // printed as [] if there is none
	for _, w := range resp.GetWaiters() {
		all = append(all, waitingView{Name: w.GetName(), waiterView: viewWaiter(w)})
	}
	var missing silence
	missing.add(resp)
	return all, missing, err
}

func printWaiting(w io.Writer, all []waitingView) error {
	rows := [][]string{{"NAME", "KIND", "SINCE", "TIME LEFT", "CLIENT", "ADDRESS", "REPLICA", "ANNOTATION", "WAITER"}}
	for _, q := range all {
		rows = append(rows, []string{
			q.Name, dash(q.Kind), q.age(), milliseconds(q.TimeLeft), dash(q.Client), dash(q.Address), dash(q.Replica),
			dash(q.Annotation), dash(q.Owner),
		})
	}
	return printTable(w, rows)
}
