package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// inspectView is what inspect prints. Its keys are part of what lockctl promises.
type inspectView struct {
	lockView
	Queue []waiterView `json:"queue"`
}

// waiterView is a request that waits.
type waiterView struct {
	Position uint32 `json:"position"` // 0 = the next one
	Kind     string `json:"kind"`
	Owner    string `json:"owner"`   // of a fair lock
	Session  string `json:"session"` // empty for a unary call, or elsewhere
	Client   string `json:"client"`
	Age      *int64 `json:"age_ms"` // null for one that waits elsewhere
}

func newInspect(o *options) *cobra.Command {
	var most uint32
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show what is known of a name, and who waits for it",
		Long: `inspect shows what is known of a name, and who waits for it, the next one first: for a fair lock all there are on
any replica and in other programs, for other kinds those on the replica that answers.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				v, err := s.inspect(ctx, args[0], most)
				if err != nil {
					return wrap("inspect", args[0], err)
				}
				if v.unknown() {
					return wrap("inspect", args[0], errUnknownName)
				}
				if o.output == outputJSON {
					return printJSON(cmd.OutOrStdout(), v)
				}
				return v.print(cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().Uint32Var(&most, "queue", 100, "how many of those who wait to show at most")
	return cmd
}

// errUnknownName is a name that is free and left no trace.
var errUnknownName = errors.New("nothing is known of this name: nobody holds it or waits for it, and nobody did lately")

func (v inspectView) unknown() bool {
	return !v.Held && v.Fence == 0 && v.Limit == 0 && v.Holders == 0 && v.waiting() == 0
}

func (s *services) inspect(ctx context.Context, name string, most uint32) (inspectView, error) {
	v := inspectView{Queue: []waiterView{}} // printed as [] if nobody waits
	var err error
	if v.lockView, err = s.look(ctx, name); err != nil {
		return v, err
	}
	if v.waiting() > 0 {
		v.Queue, err = s.queue(ctx, name, int(min(most, v.waiting())))
	}
	return v, err
}

// look reads what is known of a name.
func (s *services) look(ctx context.Context, name string) (lockView, error) {
	resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.GetResponse, error) {
		return s.locks.Get(ctx, &lockdv1.GetRequest{Name: name})
	})
	return viewLock(resp.GetLock()), err
}

// queue reads those who wait, at most so many.
func (s *services) queue(ctx context.Context, name string, most int) ([]waiterView, error) {
	queue := []waiterView{}
	err := page(func(token string) (string, error) {
		left := most - len(queue)
		if left <= 0 {
			return "", nil
		}
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListWaitersResponse, error) {
			return s.reads.ListWaiters(ctx, &lockdv1.ListWaitersRequest{
				Name: name, PageSize: uint32(min(left, pageSize)), PageToken: token, //nolint:gosec // from 1 to pageSize
			})
		})
		for _, w := range resp.GetWaiters() {
			queue = append(queue, viewWaiter(w))
		}
		return resp.GetNextPageToken(), err
	})
	return queue, err
}

func viewWaiter(w *lockdv1.WaiterInfo) waiterView {
	v := waiterView{
		Position: w.GetPosition(), Kind: kindName(w.GetKind()), Owner: w.GetOwner(), Session: w.GetSessionId(),
		Client: w.GetClientName(),
	}
	if w.GetAge() != nil {
		v.Age = new(w.GetAge().AsDuration().Milliseconds())
	}
	return v
}

func (v inspectView) print(w io.Writer) error {
	rows := [][]string{
		{"name", v.Name},
		{"kind", dash(v.Kind)},
		{"held", strconv.FormatBool(v.Held)},
		{"holder", dash(v.Holder)},
		{"holders", v.holders()},
		{"client", dash(v.Client)},
		{"fence", strconv.FormatUint(v.Fence, 10)},
		{"ttl", v.ttl()},
		{"hold count", number(v.HoldCount)},
		{"waiters", number(v.Waiters)},
		{"queued", number(v.Queued)},
		{"annotation", dash(v.Annotation)},
	}
	if v.Limit > 0 {
		rows = append(rows, []string{"limit", number(v.Limit)})
	}
	if err := printTable(w, rows); err != nil || len(v.Queue) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printQueue(w, v.Queue)
}

// waiter is who waits, as far as it is known.
func (v waiterView) waiter() string {
	if v.Owner != "" {
		return v.Owner
	}
	return v.Session
}

func (v waiterView) age() string { return milliseconds(v.Age) }
