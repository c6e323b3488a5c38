package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// versionView is what version prints. Its keys are part of what lockctl promises.
type versionView struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of lockctl; status shows that of the server",
		Args:  exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionView{Version: cmp.Or(version, "unknown"), Go: runtime.Version()}
			if o.output == outputJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			return printLine(cmd.OutOrStdout(), "lockctl %s (%s)", v.Version, v.Go)
		},
	}
}

// statusView is what status prints. Its keys are part of what lockctl promises.
type statusView struct {
	Replica    string `json:"replica"`
	Version    string `json:"version"`
	Uptime     int64  `json:"uptime_ms"`
	Ready      bool   `json:"ready"`
	Draining   bool   `json:"draining"`
	Store      string `json:"store"`
	StoreError string `json:"store_error"` // empty if it can be reached
	Sessions   uint32 `json:"sessions"`
	Locks      uint32 `json:"locks"`
	Waiters    uint32 `json:"waiters"`
}

func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the server is",
		Long:  "status shows how the replica that answers is. If it is not ready the exit code is 69.",
		Args:  exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.GetStatusResponse, error) {
					return s.reads.GetStatus(ctx, &lockdv1.GetStatusRequest{})
				})
				if err != nil {
					return fmt.Errorf("status: %w", err)
				}
				v := viewStatus(resp)
				if o.output == outputJSON {
					err = printJSON(cmd.OutOrStdout(), v)
				} else {
					err = v.print(cmd.OutOrStdout())
				}
				if err == nil && !v.Ready {
					err = codeError{code: exitUnavailable}
				}
				return err
			})
		},
	}
}

func viewStatus(r *lockdv1.GetStatusResponse) statusView {
	return statusView{
		Replica: r.GetReplica(), Version: r.GetVersion(), Uptime: r.GetUptime().AsDuration().Milliseconds(),
		Ready:    r.GetReady(),
		Draining: r.GetDraining(), Store: r.GetStore(), StoreError: r.GetStoreError(),
		Sessions: r.GetSessions(), Locks: r.GetLocks(), Waiters: r.GetWaiters(),
	}
}

func (v statusView) print(w io.Writer) error {
	rows := [][]string{
		{"replica", dash(v.Replica)},
		{"version", dash(v.Version)},
		{"uptime", milliseconds(&v.Uptime)},
		{"ready", strconv.FormatBool(v.Ready)},
		{"draining", strconv.FormatBool(v.Draining)},
		{"store", dash(v.Store)},
		{"sessions", number(v.Sessions)},
		{"locks", number(v.Locks)},
		{"waiters", number(v.Waiters)},
	}
	if v.StoreError != "" {
		rows = append(rows, []string{"store error", v.StoreError})
	}
	return printTable(w, rows)
}

// sessionView is one of what sessions prints. Its keys are part of what lockctl promises.
type sessionView struct {
	Session string            `json:"session"`
	Client  string            `json:"client"`
	Labels  map[string]string `json:"labels"`
	Peer    string            `json:"peer"`
	Replica string            `json:"replica"`
	Age     int64             `json:"age_ms"`
	Silence int64             `json:"silence_ms"` // since it was heard last
	Locks   uint32            `json:"locks"`
	Waiters uint32            `json:"waiters"`
	Watches uint32            `json:"watches"`
	// Detached is for how long it has no stream; null while it has one.
	Detached *int64 `json:"detached_ms"`
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				all, missing, err := s.sessions(ctx, f, detached)
				if err != nil {
					return fmt.Errorf("sessions: %w", err)
				}
				if o.output == outputJSON {
					err = printJSON(cmd.OutOrStdout(), all)
				} else {
					err = printSessions(cmd.OutOrStdout(), all)
				}
				return cmp.Or(err, missing.tell(cmd.ErrOrStderr()))
			})
		},
	}
	f.flags(cmd, false)
	cmd.Flags().BoolVar(&detached, "detached", false, "only those that have no stream")
	return cmd
}

func (s *services) sessions(ctx context.Context, f filter, detached bool) ([]sessionView, silence, error) {
	all := []sessionView{} // printed as [] if there is none
	var missing silence
	err := page(func(token string) (string, error) {
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.ListSessionsResponse, error) {
			return s.reads.ListSessions(ctx, &lockdv1.ListSessionsRequest{
				PageSize: pageSize, PageToken: token, Everywhere: true, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
				Detached: detached,
			})
		})
		missing.add(resp)
		for _, i := range resp.GetSessions() {
			v := sessionView{
				Session: i.GetSessionId(), Client: i.GetClientName(), Labels: map[string]string{}, Peer: i.GetPeer(),
				Replica: i.GetReplica(),
				Age:     i.GetAge().AsDuration().Milliseconds(), Silence: i.GetSilence().AsDuration().Milliseconds(),
				Locks: i.GetLocks(), Waiters: i.GetWaiters(), Watches: i.GetWatches(),
				Detached: viewTime(i.GetDetached()),
			}
			maps.Copy(v.Labels, i.GetLabels())
			all = append(all, v)
		}
		return resp.GetNextPageToken(), err
	})
	return all, missing, err
}

func printSessions(w io.Writer, all []sessionView) error {
	rows := [][]string{{"SESSION", "AGE", "SILENT", "DETACHED", "LOCKS", "WAITERS", "PEER", "REPLICA", "CLIENT", "LABELS"}}
	for _, v := range all {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
			labels = append(labels, key+"="+v.Labels[key])
		}
		rows = append(rows, []string{
			v.Session, milliseconds(&v.Age), milliseconds(&v.Silence), milliseconds(v.Detached), number(v.Locks),
			number(v.Waiters),
			dash(v.Peer), dash(v.Replica), dash(v.Client), dash(strings.Join(labels, ",")),
		})
	}
	return printTable(w, rows)
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
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && f != (filter{}) {
				return usagef("usage: lockctl waiters NAME, or lockctl waiters with --prefix, --client, --replica or --min-age")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				if len(args) == 0 {
					return o.printWaiters(ctx, cmd, s, f, most)
				}
				v, err := s.inspect(ctx, args[0], most)
				if err != nil {
					return wrap("waiters", args[0], err)
				}
				if o.output == outputJSON {
					err = printJSON(cmd.OutOrStdout(), v.Queue)
				} else {
					err = printQueue(cmd.OutOrStdout(), v.Queue)
				}
				return cmp.Or(err, silence{v.Replicas, v.Silent, v.StoreError}.tell(cmd.ErrOrStderr()))
			})
		},
	}
	cmd.Flags().Uint32Var(&most, "most", 1000, "how many to show at most")
	f.flags(cmd, true)
	return cmd
}

// printWaiters prints the requests that wait for any name.
func (o *options) printWaiters(ctx context.Context, cmd *cobra.Command, s *services, f filter, most uint32) error {
	all, missing, err := s.waitersOfAny(ctx, f, most)
	if err != nil {
		return fmt.Errorf("waiters: %w", err)
	}
	if o.output == outputJSON {
		err = printJSON(cmd.OutOrStdout(), all)
	} else {
		err = printWaiting(cmd.OutOrStdout(), all)
	}
	return cmp.Or(err, missing.tell(cmd.ErrOrStderr()))
}

func printQueue(w io.Writer, queue []waiterView) error {
	rows := [][]string{{"POSITION", "KIND", "AGE", "TIME LEFT", "CLIENT", "ADDRESS", "REPLICA", "ANNOTATION", "WAITER"}}
	for _, q := range queue {
		rows = append(rows, []string{
			number(q.Position), dash(q.Kind), q.age(), milliseconds(q.TimeLeft), dash(q.Client), dash(q.Address),
			dash(q.Replica), dash(q.Annotation), dash(q.Owner),
		})
	}
	return printTable(w, rows)
}

// drainView is what drain prints. Its keys are part of what lockctl promises.
type drainView struct {
	Draining bool   `json:"draining"`
	Sessions uint32 `json:"sessions"` // asked to move
	Changed  bool   `json:"changed"`
}

func newDrain(o *options) *cobra.Command {
	var undo bool
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "drain [--undo]",
		Short: "Ask all clients of a replica to move on, and have it refuse new ones",
		Long: `drain asks all clients of the replica at --admin-addr to move to another one, and has it refuse new
ones until it is stopped or --undo takes that back. Locks that are held stay held.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if undo && within > 0 {
				return usagef("--within means nothing with --undo")
			}
			return o.operate(cmd, cmd.Name(), func(ctx context.Context, s *services) error {
				v, err := s.drain(ctx, undo, within)
				switch {
				case err != nil:
					return fmt.Errorf("drain: %w", err)
				case o.output == outputJSON:
					return printJSON(cmd.OutOrStdout(), v)
				case undo && !v.Changed:
					return printLine(cmd.OutOrStdout(), "it was not draining")
				case undo:
					return printLine(cmd.OutOrStdout(), "takes clients again")
				}
				return printLine(cmd.OutOrStdout(), "draining, asked %s to move", counted(v.Sessions, "session"))
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "take a drain back")
	cmd.Flags().DurationVar(&within, "within", 0, "spread the requests to move over this time (default the server's)")
	return cmd
}

func (s *services) drain(ctx context.Context, undo bool, within time.Duration) (drainView, error) {
	if undo {
		resp, err := certain(ctx, s, func(ctx context.Context) (*lockdv1.UndrainResponse, error) {
			return s.admin.Undrain(ctx, &lockdv1.UndrainRequest{})
		})
		return drainView{Changed: resp.GetDrained()}, err
	}
	req := &lockdv1.DrainRequest{}
	if within > 0 {
		req.Within = durationpb.New(within)
	}
	resp, err := certain(ctx, s, func(ctx context.Context) (*lockdv1.DrainResponse,
		error,
	) {
		return s.admin.Drain(ctx, req)
	})
	return drainView{Draining: true, Sessions: resp.GetSessions(), Changed: true}, err
}
