package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

const pageSize = 1000

func newList(o *options) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the names that are held",
		Args:    exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				locks, err := s.list(ctx, prefix)
				if err != nil {
					return fmt.Errorf("ls: %w", err)
				}
				if o.output == outputJSON {
					return printJSON(cmd.OutOrStdout(), locks)
				}
				return printLocks(cmd.OutOrStdout(), locks)
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this `text`")
	return cmd
}

// list reads all pages. The server may tell a name twice, and in any order.
func (s *services) list(ctx context.Context, prefix string) ([]lockView, error) {
	locks := []lockView{} // printed as [] if there is none
	err := page(func(token string) (string, error) {
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListResponse, error) {
			return s.locks.List(ctx, &lockdv1.ListRequest{Prefix: prefix, PageSize: pageSize, PageToken: token})
		})
		for _, l := range resp.GetLocks() {
			locks = append(locks, viewLock(l))
		}
		return resp.GetNextPageToken(), err
	})
	slices.SortFunc(locks, func(a, b lockView) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(locks, func(a, b lockView) bool { return a.Name == b.Name }), err
}

func printLocks(w io.Writer, locks []lockView) error {
	rows := [][]string{{"NAME", "KIND", "TTL", "FENCE", "HOLDERS", "WAITERS", "CLIENT", "HOLDER"}}
	for _, l := range locks {
		rows = append(rows, []string{
			l.Name, dash(l.Kind), l.ttl(), strconv.FormatUint(l.Fence, 10), l.holders(), number(l.waiting()),
			dash(l.Client), dash(l.Holder),
		})
	}
	return printTable(w, rows)
}

// eventView is what watch prints. Its keys are part of what lockctl promises.
type eventView struct {
	Event  string    `json:"event"` // "unlocked"
	Name   string    `json:"name"`
	Cause  string    `json:"cause"`  // RELEASED, HANDED_OVER, EXPIRED, FORCED, DATA_LOSS, UNKNOWN
	Fence  uint64    `json:"fence"`  // of the hold that ended, 0 if it is not known
	Merged uint32    `json:"merged"` // earlier ends that this line tells as well
	Gap    bool      `json:"gap"`    // the connection was interrupted: it may have been unlocked, or not
	Time   time.Time `json:"time"`
}

func newWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME",
		Short: "Print a line for each end of a hold of a name",
		Long: `watch prints a line for each end of a hold of a name, until it is interrupted: what ended it, and the fence of the
hold. After an interruption of the connection it says so, as it may have missed some.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := o.dialSession("watch")
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // there is nothing to release
			events, err := c.Watch(ctx, args[0])
			if err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			for e := range events {
				v := eventView{
					Event: "unlocked", Name: e.Name, Cause: string(e.Cause), Fence: e.Fence, Merged: e.Merged, Gap: e.Gap,
					Time: time.Now(),
				}
				if err := o.printEvent(cmd.OutOrStdout(), v); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
	}
}

func (o *options) printEvent(w io.Writer, v eventView) error {
	if o.output == outputJSON {
		return printJSON(w, v)
	}
	note := " cause " + v.Cause
	if v.Fence != 0 {
		note += " fence " + strconv.FormatUint(v.Fence, 10)
	}
	if v.Merged > 0 {
		note += fmt.Sprintf(" (and %d before)", v.Merged)
	}
	if v.Gap {
		note = " (maybe: the connection was interrupted)"
	}
	return printLine(w, "%s unlocked %s%s", v.Time.Format(time.RFC3339), v.Name, note)
}
