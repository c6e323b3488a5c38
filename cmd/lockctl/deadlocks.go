package main

import (
	"context"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// deadlocksView is what deadlocks prints.
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
	partyView

	Name     string `json:"name"`
	TimeLeft *int64 `json:"time_left_ms"` // null if it waits for ever
	HeldBy   string `json:"held_by"`
	Fence    uint64 `json:"fence"`
	Fails    bool   `json:"fails"`
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
			v := viewDeadlocks(resp)
			code := 0
			if len(v.Deadlocks) > 0 {
				code = exitFailed
			}
			return shown{json: v, text: v.text, code: code}, err
		}),
	}
}

func viewDeadlocks(resp *lockdv1.ListDeadlocksResponse) deadlocksView {
	v := deadlocksView{
		Deadlocks: []deadlockView{}, Replicas: resp.GetReplicasAsked(),
		Silent: resp.GetReplicasAsked() - resp.GetReplicasAnswered(),
	}
	for _, d := range resp.GetDeadlocks() {
		one := deadlockView{Omitted: d.GetOmitted()}
		for _, m := range d.GetMembers() {
			one.Members = append(one.Members, deadlockMemberView{
				partyView: viewParty(m), Name: m.GetName(), TimeLeft: viewTime(m.GetTimeLeft()), HeldBy: m.GetHeldBy(),
				Fence: m.GetFence(), Fails: m.GetFails(),
			})
		}
		v.Deadlocks = append(v.Deadlocks, one)
	}
	return v
}

func (v deadlocksView) text(p *screen) {
	if len(v.Deadlocks) == 0 {
		p.line("no deadlocks")
	}
	for i, d := range v.Deadlocks {
		p.line("deadlock %d of %d: each waits for what the next one holds, the last one for the first one",
			i+1, len(v.Deadlocks))
		rows := [][]string{{
			"CLIENT", "ADDRESS", "REPLICA", "WAITS FOR", "KIND", "SINCE", "TIME LEFT", "ANNOTATION", "WAITER", "HELD BY",
		}}
		for _, m := range d.Members {
			rows = append(rows, []string{
				dash(m.Client), dash(m.Address), dash(m.Replica), m.Name, dash(m.Kind), milliseconds(m.Age),
				milliseconds(m.TimeLeft), dash(m.Annotation), dash(m.Owner), dash(m.HeldBy),
			})
		}
		p.table(rows)
		if d.Omitted > 0 {
			p.line("and %d more", d.Omitted)
		}
	}
	if v.Silent > 0 {
		p.line("%s", silence{asked: v.Replicas, silent: v.Silent}.replicas())
	}
}
