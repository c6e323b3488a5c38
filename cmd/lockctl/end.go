package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// endView is what end prints.
type endView struct {
	Session  string `json:"session"`
	Ended    bool   `json:"ended"`
	Released bool   `json:"released"` // by the replica that had it; else its leases end by themselves
}

func (v endView) text(p *screen) {
	if v.Released {
		p.line("ended %s", v.Session)
		return
	}
	p.line("ended %s; what it held is not known to be released, and runs out at the latest", v.Session)
}

func newEnd(o *options) *cobra.Command {
	var force bool
	var reason string
	cmd := &cobra.Command{
		Use:   "end SESSION --force --reason TEXT",
		Short: "End a session, and release what it holds",
		Long: `end ends a session of lockd at whatever replica it is, by its id as sessions and inspect show it. What it holds
is released. Its client is told who ended it and why, and may open another one; but it may be in the middle of its
work. The reason is logged, too. If there is no such session the exit code is 1.`,
		Args: exactly(1),
		RunE: o.operates(func(ctx context.Context, s *services, args []string) (shown, error) {
			switch {
			case !force:
				return shown{}, usagef("its client may be in the middle of its work; say --force")
			case strings.TrimSpace(reason) == "":
				return shown{}, usagef("the client and the log are told why a session ends; say it with --reason TEXT")
			}
			released, err := s.end(ctx, args[0], reason)
			v := endView{Session: args[0], Ended: true, Released: released}
			return shown{json: v, text: v.text}, err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "say that this is meant")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` for the client and the log")
	return cmd
}

// end ends a session, and says whether what it held is released.
func (s *services) end(ctx context.Context, id, reason string) (released bool, err error) {
	resp, unsure, err := change(ctx, s, s.admins.EndSession,
		&lockdv1.EndSessionRequest{SessionId: id, Why: reason, By: person()})
	silent := resp.GetReplicasAsked() - resp.GetReplicasAnswered()
	switch {
	case err != nil || resp.GetEnded():
		return resp.GetReleased(), err
	case unsure:
		err = fmt.Errorf("%w: no replica has it now, and an earlier try may have ended it", client.ErrOutcomeUnknown)
	case silent > 0:
		err = fmt.Errorf("%w: %s did not answer, and may have it", client.ErrOutcomeUnknown, counted(silent, "replica"))
	default:
		err = client.ErrSessionExpired
	}
	return false, err
}
