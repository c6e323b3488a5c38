package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// inspectView is what inspect prints. Its keys are part of what lockctl promises.
type inspectView struct {
	lockView
	Holds []holderView `json:"holds"`
	Queue []waiterView `json:"queue"`
	// Replicas is how many were asked, Silent how many of them did not answer: what those know is missing.
	Replicas uint32 `json:"replicas"`
	Silent   uint32 `json:"replicas_silent"`
}

// holderView is who holds a lock. What nobody knows is empty.
type holderView struct {
	Owner      string            `json:"owner"`
	Origin     string            `json:"origin"` // session, unary, redisson, other; empty if it is not known
	Kind       string            `json:"kind"`
	Session    string            `json:"session"`
	Client     string            `json:"client"`
	Labels     map[string]string `json:"labels"`
	Address    string            `json:"address"`
	Replica    string            `json:"replica"`
	Age        *int64            `json:"age_ms"`
	TTL        *int64            `json:"ttl_ms"` // null if it has no end
	Auto       bool              `json:"auto"`
	Fence      uint64            `json:"fence"`
	HoldCount  uint32            `json:"hold_count"`
	Permits    uint32            `json:"permits"`
	Annotation string            `json:"annotation"`
}

// waiterView is a request that waits. What nobody knows is empty.
type waiterView struct {
	Position   uint32 `json:"position"` // 0 = the next one
	Kind       string `json:"kind"`
	Owner      string `json:"owner"`
	Session    string `json:"session"` // empty for a unary call
	Client     string `json:"client"`
	Address    string `json:"address"`
	Replica    string `json:"replica"`
	Age        *int64 `json:"age_ms"`
	TimeLeft   *int64 `json:"time_left_ms"` // null if it waits for ever
	Annotation string `json:"annotation"`
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

// inspect asks for at most so many waiters.
func (s *services) inspect(ctx context.Context, name string, most uint32) (inspectView, error) {
	resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.InspectResponse, error) {
		return s.reads.Inspect(ctx, &lockdv1.InspectRequest{Name: name, MaxWaiters: most})
	})
	v := inspectView{
		lockView: viewLock(resp.GetLock()), Holds: []holderView{}, Queue: []waiterView{}, // printed as [] if there are none
		Replicas: resp.GetReplicasAsked(), Silent: resp.GetReplicasAsked() - resp.GetReplicasAnswered(),
	}
	for _, h := range resp.GetHolders() {
		v.Holds = append(v.Holds, viewHolder(h))
	}
	for _, w := range resp.GetWaiters() {
		v.Queue = append(v.Queue, viewWaiter(w))
	}
	v.Waiters = max(v.Waiters, number32(len(v.Queue)))
	return v, err
}

func viewHolder(h *lockdv1.HolderInfo) holderView {
	origins := map[lockdv1.HolderInfo_Origin]string{
		lockdv1.HolderInfo_ORIGIN_SESSION: "session", lockdv1.HolderInfo_ORIGIN_UNARY: "unary",
		lockdv1.HolderInfo_ORIGIN_OTHER: "other", lockdv1.HolderInfo_ORIGIN_REDISSON: "redisson",
	}
	labels := h.GetLabels()
	if labels == nil {
		labels = map[string]string{} // printed as {} if there are none
	}
	return holderView{
		Owner: h.GetOwner(), Origin: origins[h.GetOrigin()], Kind: kindName(h.GetKind()), Session: h.GetSessionId(),
		Client: h.GetClientName(), Labels: labels, Address: h.GetPeer(), Replica: h.GetReplica(),
		Age: viewTime(h.GetAge()), TTL: viewTime(h.GetTtl()), Auto: h.GetAuto(), Fence: h.GetFence(),
		HoldCount: h.GetHoldCount(), Permits: h.GetPermits(), Annotation: h.GetAnnotation(),
	}
}

func viewTime(d *durationpb.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.AsDuration().Milliseconds())
}

func viewWaiter(w *lockdv1.WaiterInfo) waiterView {
	return waiterView{
		Position: w.GetPosition(), Kind: kindName(w.GetKind()), Owner: w.GetOwner(), Session: w.GetSessionId(),
		Client: w.GetClientName(), Address: w.GetPeer(), Replica: w.GetReplica(), Age: viewTime(w.GetAge()),
		TimeLeft: viewTime(w.GetTimeLeft()), Annotation: w.GetAnnotation(),
	}
}

func (v inspectView) print(w io.Writer) error {
	rows := [][]string{
		{"name", v.Name},
		{"kind", dash(v.Kind)},
		{"held", strconv.FormatBool(v.Held)},
		{"holders", v.holders()},
		{"fence", strconv.FormatUint(v.Fence, 10)},
		{"ttl", v.ttl()},
		{"waiters", number(v.waiting())},
	}
	if v.Members > 0 {
		rows = append(rows, []string{"members", number(v.Members)})
	}
	if v.Silent > 0 {
		rows = append(rows, []string{
			"replicas",
			fmt.Sprintf("%d of %d did not answer: what they know is missing", v.Silent, v.Replicas),
		})
	}
	err := printTable(w, rows)
	if err == nil && len(v.Holds) > 0 {
		err = v.printHolds(w)
	}
	if err != nil || len(v.Queue) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printQueue(w, v.Queue)
}

func (v inspectView) printHolds(w io.Writer) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	rows := [][]string{{"HELD BY", "KIND", "COUNT", "SINCE", "TTL", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER"}}
	for _, h := range v.Holds {
		rows = append(rows, []string{
			h.by(), dash(h.Kind), number(max(h.HoldCount, h.Permits)), milliseconds(h.Age), milliseconds(h.TTL),
			dash(h.Address), dash(h.Replica), dash(h.Annotation), dash(h.Owner),
		})
	}
	return printTable(w, rows)
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

func (v waiterView) age() string { return milliseconds(v.Age) }

// number32 is a count that is never negative.
func number32(n int) uint32 { return uint32(min(uint64(max(n, 0)), math.MaxUint32)) } //nolint:gosec // see above
