package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// actorEnv names the actor of all execs of a script that runs one at a time. What runs inside of an exec finds it
// there.
const actorEnv = "LOCKD_ACTOR"

// actor is that of an exec, and of those inside of it: none of them goes on while one waits.
func actor() string { return cmp.Or(os.Getenv(actorEnv), client.NewActor()) }

// aboutDeadlocks is what exec tells the server about deadlocks.
func aboutDeadlocks(actor string, fail bool) []client.Option {
	opts := []client.Option{client.WithActor(actor)}
	if fail {
		opts = append(opts, client.WithFailOnDeadlock())
	}
	return opts
}

// deadlocksView is what deadlocks prints. Its keys are part of what lockctl promises.
type deadlocksView struct {
	Deadlocks []deadlockView `json:"deadlocks"`
	Replicas  uint32         `json:"replicas"`
	Silent    uint32         `json:"replicas_silent"`
}

// deadlockView is a circle of requests. The youngest is the first member.
type deadlockView struct {
	Members []deadlockMemberView `json:"members"`
	Omitted uint32               `json:"omitted"` // members, after these
}

// deadlockMemberView is a request that waits for what the next member holds.
type deadlockMemberView struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Owner      string `json:"owner"`
	Session    string `json:"session"`
	Client     string `json:"client"`
	Address    string `json:"address"`
	Replica    string `json:"replica"`
	Annotation string `json:"annotation"`
	Age        *int64 `json:"age_ms"`
	TimeLeft   *int64 `json:"time_left_ms"` // null if it waits for ever
	HeldBy     string `json:"held_by"`
	Fence      uint64 `json:"fence"`
	Fails      bool   `json:"fails"`
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				v, err := s.deadlocks(ctx)
				if err != nil {
					return fmt.Errorf("deadlocks: %w", err)
				}
				if o.output == outputJSON {
					err = printJSON(cmd.OutOrStdout(), v)
				} else {
					err = v.print(cmd.OutOrStdout())
				}
				if err == nil && len(v.Deadlocks) > 0 {
					err = codeError{code: exitFailed}
				}
				return err
			})
		},
	}
}

func (s *services) deadlocks(ctx context.Context) (deadlocksView, error) {
	resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListDeadlocksResponse, error) {
		return s.reads.ListDeadlocks(ctx, &lockdv1.ListDeadlocksRequest{})
	})
	v := deadlocksView{
		Deadlocks: []deadlockView{}, Replicas: resp.GetReplicasAsked(),
		Silent: resp.GetReplicasAsked() - resp.GetReplicasAnswered(),
	}
	for _, d := range resp.GetDeadlocks() {
		one := deadlockView{Omitted: d.GetOmitted()}
		for _, m := range d.GetMembers() {
			one.Members = append(one.Members, deadlockMemberView{
				Name: m.GetName(), Kind: kindName(m.GetKind()), Owner: m.GetOwner(), Session: m.GetSessionId(),
				Client:  m.GetClientName(),
				Address: m.GetPeer(), Replica: m.GetReplica(), Annotation: m.GetAnnotation(), Age: viewTime(m.GetAge()),
				TimeLeft: viewTime(m.GetTimeLeft()), HeldBy: m.GetHeldBy(), Fence: m.GetFence(), Fails: m.GetFails(),
			})
		}
		v.Deadlocks = append(v.Deadlocks, one)
	}
	return v, err
}

func (v deadlocksView) print(w io.Writer) error {
	if len(v.Deadlocks) == 0 {
		if err := printLine(w, "no deadlocks"); err != nil {
			return err
		}
	}
	for i, d := range v.Deadlocks {
		if err := printLine(w, "deadlock %d of %d: each waits for what the next one holds, the last one for the first one",
			i+1, len(v.Deadlocks)); err != nil {
			return err
		}
		rows := [][]string{{
			"CLIENT", "ADDRESS", "REPLICA", "WAITS FOR", "KIND", "SINCE", "TIME LEFT", "ANNOTATION", "WAITER",
			"HELD BY",
		}}
		for _, m := range d.Members {
			rows = append(rows, []string{
				dash(m.Client), dash(m.Address), dash(m.Replica), m.Name, dash(m.Kind), milliseconds(m.Age),
				milliseconds(m.TimeLeft),
				dash(m.Annotation), dash(m.Owner), dash(m.HeldBy),
			})
		}
		if err := printTable(w, rows); err != nil {
			return err
		}
		if d.Omitted > 0 {
			if err := printLine(w, "and %d more", d.Omitted); err != nil {
				return err
			}
		}
	}
	return printSilent(w, v.Silent, v.Replicas)
}

// printSilent says what is missing.
func printSilent(w io.Writer, silent, asked uint32) error {
	if silent == 0 {
		return nil
	}
	return printLine(w, "%d of %d replicas did not answer: what they know is missing", silent, asked)
}
