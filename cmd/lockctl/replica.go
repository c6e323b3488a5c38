package main

import (
	"context"
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

// versionView is what version prints.
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
			v := versionView{Version: cmd.Root().Version, Go: runtime.Version()}
			return o.show(cmd, shown{json: v, text: func(p *screen) { p.line("lockctl %s (%s)", v.Version, v.Go) }})
		},
	}
}

// statusView is what status prints.
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
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			r, err := ask(ctx, s, s.reads.GetStatus, &lockdv1.GetStatusRequest{})
			v := statusView{
				Replica: r.GetReplica(), Version: r.GetVersion(), Uptime: r.GetUptime().AsDuration().Milliseconds(),
				Ready: r.GetReady(), Draining: r.GetDraining(), Store: r.GetStore(), StoreError: r.GetStoreError(),
				Sessions: r.GetSessions(), Locks: r.GetLocks(), Waiters: r.GetWaiters(),
			}
			code := 0
			if !v.Ready {
				code = exitUnavailable
			}
			return shown{json: v, text: v.text, code: code}, err
		}),
	}
}

func (v statusView) text(p *screen) {
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
	p.table(rows)
}

// sessionView is one of what sessions prints.
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
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			all, missing, err := s.sessions(ctx, f, detached)
			return shown{json: all, text: func(p *screen) { printSessions(p, all) }, missing: missing}, err
		}),
	}
	f.flags(cmd, false)
	cmd.Flags().BoolVar(&detached, "detached", false, "only those that have no stream")
	return cmd
}

func (s *services) sessions(ctx context.Context, f filter, detached bool) ([]sessionView, silence, error) {
	all := []sessionView{} // printed as [] if there is none
	var missing silence
	err := page(func(token string) (string, error) {
		resp, err := ask(ctx, s, s.reads.ListSessions, &lockdv1.ListSessionsRequest{
			PageSize: pageSize, PageToken: token, Everywhere: true, Client: f.client, Replica: f.replica, MinAge: f.minAge(),
			Detached: detached,
		})
		missing.add(resp)
		for _, i := range resp.GetSessions() {
			all = append(all, sessionView{
				Session: i.GetSessionId(), Client: i.GetClientName(), Labels: viewLabels(i.GetLabels()), Peer: i.GetPeer(),
				Replica: i.GetReplica(), Age: i.GetAge().AsDuration().Milliseconds(),
				Silence: i.GetSilence().AsDuration().Milliseconds(), Locks: i.GetLocks(), Waiters: i.GetWaiters(),
				Watches: i.GetWatches(), Detached: viewTime(i.GetDetached()),
			})
		}
		return resp.GetNextPageToken(), err
	})
	return all, missing, err
}

func printSessions(p *screen, all []sessionView) {
	rows := [][]string{{"SESSION", "AGE", "SILENT", "DETACHED", "LOCKS", "WAITERS", "PEER", "REPLICA", "CLIENT", "LABELS"}}
	for _, v := range all {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
			labels = append(labels, key+"="+v.Labels[key])
		}
		rows = append(rows, []string{
			v.Session, milliseconds(&v.Age), milliseconds(&v.Silence), milliseconds(v.Detached), number(v.Locks),
			number(v.Waiters), dash(v.Peer), dash(v.Replica), dash(v.Client), dash(strings.Join(labels, ",")),
		})
	}
	p.table(rows)
}

// drainView is what drain prints.
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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || undo && within > 0 {
				return usagef("usage: lockctl drain [--within DURATION], or lockctl drain --undo")
			}
			return nil
		},
		RunE: o.operates("drain", func(ctx context.Context, s *services, _ []string) (shown, error) {
			v, err := s.drain(ctx, undo, within)
			return shown{json: v, text: v.text}, err
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "take a drain back")
	cmd.Flags().DurationVar(&within, "within", 0, "spread the requests to move over this time (default the server's)")
	return cmd
}

func (s *services) drain(ctx context.Context, undo bool, within time.Duration) (drainView, error) {
	if undo {
		resp, err := certain(ctx, s, s.admin.Undrain, &lockdv1.UndrainRequest{})
		return drainView{Changed: resp.GetDrained()}, err
	}
	req := &lockdv1.DrainRequest{}
	if within > 0 {
		req.Within = durationpb.New(within)
	}
	resp, err := certain(ctx, s, s.admin.Drain, req)
	return drainView{Draining: true, Sessions: resp.GetSessions(), Changed: true}, err
}

func (v drainView) text(p *screen) {
	switch {
	case v.Draining:
		p.line("draining, asked %s to move", counted(v.Sessions, "session"))
	case v.Changed:
		p.line("takes clients again")
	default:
		p.line("it was not draining")
	}
}
