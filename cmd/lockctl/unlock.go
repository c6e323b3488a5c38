package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// unlockView is what unlock prints.
type unlockView struct {
	Name     string `json:"name"`
	Released bool   `json:"released"`
}

func newUnlock(o *options) *cobra.Command {
	var force bool
	var reason string
	var kind kindFlag
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
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !force:
				return usagef("unlock takes a lock from its holder, which may be in the middle of its work; say --force")
			case strings.TrimSpace(reason) == "":
				return usagef("the holder and the log are told why a lock is taken; say it with --reason TEXT")
			}
			return o.operates("unlock", func(ctx context.Context, s *services, args []string) (shown, error) {
				released, err := s.unlock(ctx, &lockdv1.ForceReleaseRequest{
					Name: args[0], Kind: kind.proto(), Why: reason, By: person(),
				})
				if err == nil && !released {
					err = client.ErrNotHeld
				}
				v := unlockView{Name: args[0], Released: released}
				return shown{json: v, text: func(p *screen) { p.line("unlocked %s", v.Name) }}, err
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "say that this is meant")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in `words` for the holder and the log")
	kind.optional(cmd)
	return cmd
}

// unlock asks for the kind first unless it is given.
func (s *services) unlock(ctx context.Context, r *lockdv1.ForceReleaseRequest) (bool, error) {
	if r.GetKind() == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		resp, err := ask(ctx, s, s.adminReads.Inspect,
			&lockdv1.InspectRequest{Name: r.GetName(), MaxHolders: 1, MaxWaiters: 1})
		if err != nil {
			return false, err
		}
		r.Kind = resp.GetLock().GetKind()
	}
	resp, unsure, err := change(ctx, s, 0, func(ctx context.Context) (*lockdv1.ForceReleaseResponse, error) {
		return s.admin.ForceRelease(ctx, r)
	})
	switch {
	case unsure && err != nil:
		err = outcome(err)
	case unsure && !resp.GetReleased():
		err = fmt.Errorf("%w: nobody holds it now, and an earlier try may have released it", client.ErrOutcomeUnknown)
	}
	return resp.GetReleased(), err
}
