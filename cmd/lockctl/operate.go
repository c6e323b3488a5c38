package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
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
		RunE: o.runs(func(_ context.Context, cmd *cobra.Command, _ []string) (shown, error) {
			v := versionView{Version: cmd.Root().Version, Go: runtime.Version()}
			return shown{json: v, text: func(p *screen) { p.line("lockctl %s (%s)", v.Version, v.Go) }}, nil
		}),
	}
}

// replicaView is what a replica says of itself.
type replicaView struct {
	Replica string  `json:"replica"`
	Version string  `json:"version"`
	Uptime  *millis `json:"uptime_ms"`
	Store   string  `json:"store"` // its kind
}

func (v replicaView) rows() [][]any {
	return [][]any{{"replica", v.Replica}, {"version", v.Version}, {"uptime", v.Uptime}, {"store", v.Store}}
}

// statusView is what status prints.
type statusView struct {
	replicaView

	Ready      bool   `json:"ready"`
	Draining   bool   `json:"draining"`
	StoreError string `json:"store_error"` // empty if it can be reached
	Sessions   uint32 `json:"sessions"`
	Locks      uint32 `json:"locks"`
	Waiters    uint32 `json:"waiters"`
	// ClientsFile is the beginning of the SHA-256 of the clients file in force; empty without one.
	ClientsFile string `json:"clients_file"`
	// Hidden says that the numbers and the clients file are not told to this caller.
	Hidden bool `json:"hidden"`
}

func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the server is",
		Long:  "status shows how the replica that answers is. If it is not ready the exit code is 69.",
		Args:  exactly(0),
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			resp, err := ask(ctx, s, s.reads.GetStatus, &lockdv1.GetStatusRequest{})
			v := view[statusView](resp)
			code := 0
			if !v.Ready {
				code = exitUnavailable
			}
			return shown{json: v, text: v.text, code: code}, err
		}),
	}
}

func (v statusView) text(p *screen) {
	rows := append(v.rows(), []any{"ready", v.Ready}, []any{"draining", v.Draining})
	if !v.Hidden {
		rows = append(rows, []any{"sessions", v.Sessions}, []any{"locks", v.Locks}, []any{"waiters", v.Waiters})
	}
	if v.ClientsFile != "" {
		rows = append(rows, []any{"clients file", v.ClientsFile})
	}
	if v.StoreError != "" {
		rows = append(rows, []any{"store error", v.StoreError})
	}
	p.table(rows)
}

// drainView is what drain prints.
type drainView struct {
	Replica  string `json:"replica"`
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
		Args: func(cmd *cobra.Command, args []string) error {
			spread := cmd.Flags().Changed("within")
			if len(args) > 0 || undo && spread || spread && within <= 0 {
				return usagef("usage: lockctl drain [--within DURATION], which is above 0, or lockctl drain --undo")
			}
			return nil
		},
		RunE: o.operates(func(ctx context.Context, s *services, _ []string) (shown, error) {
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
		resp, _, err := change(ctx, s, s.admins.Undrain, &lockdv1.UndrainRequest{})
		return drainView{Replica: resp.GetReplica(), Changed: resp.GetDrained()}, err
	}
	req := &lockdv1.DrainRequest{}
	if within > 0 {
		req.Within = durationpb.New(within)
	}
	resp, _, err := change(ctx, s, s.admins.Drain, req)
	return drainView{Replica: resp.GetReplica(), Draining: true, Sessions: resp.GetSessions(), Changed: true}, err
}

func (v drainView) text(p *screen) {
	switch {
	case v.Draining:
		p.line("%s drains, asked %s to move", v.Replica, counted(v.Sessions, "session"))
	case v.Changed:
		p.line("%s takes clients again", v.Replica)
	default:
		p.line("%s was not draining", v.Replica)
	}
}

// doctorView is what doctor prints.
type doctorView struct {
	replicaView

	Worst    string        `json:"worst"` // ok, info, warning or error
	Findings []findingView `json:"findings"`
}

type findingView struct {
	Severity string `json:"severity"` // ok, info, warning, error; unknown to this lockctl: empty
	Check    string `json:"check"`
	Node     string `json:"node"`
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy"` // empty if nothing is to be done
}

func newDoctor(o *options) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a replica and the servers where it keeps leases, and say what to change",
		Long: `doctor has the replica at --admin-addr examine itself and each server where it keeps leases: whether
they are as lockd needs them. It changes nothing. The worst findings come first, each with what to do about it.

The exit code is 0 if all is well, 2 if the worst finding is a warning, 3 if it is an error.`,
		Args: exactly(0),
		RunE: o.operates(func(ctx context.Context, s *services, _ []string) (shown, error) {
			const within = 2 * client.DefaultAnswerTimeout // each server is asked, and may be silent
			resp, _, err := retry(ctx, s, within, func(ctx context.Context) (*lockdv1.ExamineResponse, error) {
				return s.admins.Examine(ctx, &lockdv1.ExamineRequest{})
			})
			v, code := viewDoctor(resp)
			return shown{json: v, text: func(p *screen) { v.text(p, all) }, code: code}, err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also show what is as it should be")
	return cmd
}

// viewDoctor puts the worst findings first, and else leaves them in their order. The exit code tells the worst.
func viewDoctor(r *lockdv1.ExamineResponse) (v doctorView, code int) {
	slices.SortStableFunc(r.GetFindings(), func(a, b *lockdv1.Finding) int {
		return cmp.Compare(b.GetSeverity(), a.GetSeverity())
	})
	v = view[doctorView](r)
	v.Worst = "ok"
	if len(v.Findings) == 0 {
		return v, 0
	}
	v.Worst = cmp.Or(v.Findings[0].Severity, v.Worst)
	switch worst := r.GetFindings()[0].GetSeverity(); {
	case worst >= lockdv1.Finding_SEVERITY_ERROR:
		code = exitWrong
	case worst == lockdv1.Finding_SEVERITY_WARNING:
		code = exitDoubtful
	}
	return v, code
}

func (v doctorView) text(p *screen, all bool) {
	p.table(v.rows())
	rows, fine := [][]any{{"FOUND", "CHECK", "NODE", "DETAIL"}}, 0
	for _, f := range v.Findings {
		if f.Severity == "ok" {
			fine++
			if !all {
				continue
			}
		}
		rows = append(rows, []any{cmp.Or(f.Severity, "-"), f.Check, f.Node, f.Detail})
		if f.Remedy != "" {
			rows = append(rows, []any{"", "", "", "-> " + f.Remedy})
		}
	}
	if len(rows) > 1 {
		p.line("")
		p.table(rows)
	}
	p.line("")
	p.line("%s passed", counted(fine, "check"))
}

// unlockView is what unlock prints.
type unlockView struct {
	Name     string `json:"name"`
	Released bool   `json:"released"`
}

func newUnlock(o *options) *cobra.Command {
	var force bool
	var reason string
	var kind client.Kind
	cmd := &cobra.Command{
		Use:   "unlock NAME --force --reason TEXT",
		Short: "Take a lock from whoever holds it",
		Long: `unlock frees a name whoever holds it. The holder is told that it lost the lock, who took it and why, but may be
in the middle of its work: only a resource that checks fences is safe from what it still does. The reason is logged,
too.
If nobody holds the name the exit code is 1.

All readers lose a read lock, and all holders the permits of a semaphore, which keeps its limit. With --kind read a
writer keeps the lock, with --kind write readers do.`,
		Args: exactly(1),
		RunE: o.operates(func(ctx context.Context, s *services, args []string) (shown, error) {
			switch {
			case !force:
				return shown{}, usagef("it takes a lock from its holder, which may be in the middle of its work; say --force")
			case strings.TrimSpace(reason) == "":
				return shown{}, usagef("the holder and the log are told why a lock is taken; say it with --reason TEXT")
			}
			err := s.unlock(ctx, &lockdv1.ForceReleaseRequest{
				Name: args[0], Kind: lockdv1.LockKind(kind), Why: reason, By: person(),
			})
			v := unlockView{Name: args[0], Released: true}
			return shown{json: v, text: func(p *screen) { p.line("unlocked %s", v.Name) }}, err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "say that this is meant")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` for the holder and the log")
	kindFlag(cmd, &kind, foundOut)
	return cmd
}

// unlock asks for the kind first unless it is given.
func (s *services) unlock(ctx context.Context, r *lockdv1.ForceReleaseRequest) error {
	if r.GetKind() == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		resp, err := ask(ctx, s, s.adminReads.Inspect,
			&lockdv1.InspectRequest{Name: r.GetName(), MaxHolders: 1, MaxWaiters: 1})
		if err != nil {
			return err
		}
		r.Kind = resp.GetLock().GetKind()
	}
	resp, unsure, err := change(ctx, s, s.admins.ForceRelease, r)
	switch {
	case err != nil || resp.GetReleased():
		return err
	case unsure:
		return fmt.Errorf("%w: nobody holds it now, and an earlier try may have released it", client.ErrOutcomeUnknown)
	}
	return client.ErrNotHeld
}

// limitView is what limit prints.
type limitView struct {
	Name     string  `json:"name"`
	Limit    uint32  `json:"limit"`    // 0 if there is none
	Previous *uint32 `json:"previous"` // null unless it was set
}

func newLimit(o *options) *cobra.Command {
	var remove, adopt bool
	cmd := &cobra.Command{
		Use:   "limit NAME [N]",
		Short: "Show, set or remove how many permits a semaphore has",
		Long: `limit shows how many permits a semaphore has, 0 if no limit was set; then the exit code is 1. With N it
sets the limit and prints it with the one before. Permits that are out stay out: with a smaller limit new ones
are granted once enough have come back. Programs that state the old limit are refused from then on.

A limit that nobody uses is forgotten after 10 minutes. --remove forgets it at once, if no permit is out. With --adopt
a number that Redisson set becomes a semaphore of N permits, which must be that number. Both are for operators, and
asked of --admin-addr.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usagef("usage: lockctl %s", cmd.Use)
			}
			if remove && (adopt || len(args) == 2) || adopt && len(args) == 1 {
				return usagef("usage: lockctl limit NAME --remove, or lockctl limit NAME N --adopt")
			}
			return nil
		},
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			n, err := numberOfPermits(args[1:])
			if err == nil && (remove || adopt) {
				err = o.namesOperators()
			}
			if err != nil {
				return shown{}, err
			}
			v, err := s.limit(ctx, args[0], n, remove, adopt)
			code := 0
			if v.Previous == nil && v.Limit == 0 {
				code = exitFailed // the output says it
			}
			return shown{json: v, text: v.text, code: code}, err
		}),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "forget the limit, if no permit is out")
	cmd.Flags().BoolVar(&adopt, "adopt", false, "have a number that Redisson set be a semaphore")
	return cmd
}

// numberOfPermits reads N, 0 if there is none.
func numberOfPermits(args []string) (uint32, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(args[0], 10, 31)
	if err != nil || n == 0 {
		return 0, usagef("the limit must be a number between 1 and 2147483647, not %s", quoted(args[0]))
	}
	return uint32(n), nil
}

// limit shows a limit, sets it to n, removes it, or adopts n.
func (s *services) limit(ctx context.Context, name string, n uint32, remove, adopt bool) (v limitView, err error) {
	v = limitView{Name: name, Limit: n}
	var before interface{ GetPrevious() uint32 }
	switch {
	case remove:
		before, _, err = change(ctx, s, s.admins.RemoveLimit, &lockdv1.RemoveLimitRequest{Name: name})
	case adopt:
		_, _, err = change(ctx, s, s.admins.AdoptLimit, &lockdv1.AdoptLimitRequest{Name: name, Limit: n})
		before = &lockdv1.SetLimitResponse{Previous: n}
	case n > 0:
		before, _, err = change(ctx, s, s.locks.SetLimit, &lockdv1.SetLimitRequest{Name: name, Limit: n})
	default:
		resp, err := ask(ctx, s, s.locks.Get, &lockdv1.GetRequest{Name: name})
		v.Limit = resp.GetLock().GetLimit()
		return v, err
	}
	v.Previous = new(before.GetPrevious())
	return v, err
}

func (v limitView) text(p *screen) {
	switch {
	case v.Previous == nil:
		p.line("%d", v.Limit)
	case v.Limit == 0:
		p.line("limit of %s is removed, was %d", v.Name, *v.Previous)
	case *v.Previous == 0:
		p.line("limit of %s is %d, there was none", v.Name, v.Limit)
	default:
		p.line("limit of %s is %d, was %d", v.Name, v.Limit, *v.Previous)
	}
}
