package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// unlockView is what unlock prints. Its keys are part of what lockctl promises.
type unlockView struct {
	Name     string `json:"name"`
	Released bool   `json:"released"`
}

func newUnlock(o *options) *cobra.Command {
	var force bool
	var kind kindFlag
	cmd := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Take a lock from whoever holds it",
		Long: `unlock frees a name whoever holds it. The holder is told that it lost the lock, but may be in the middle of its
work: only a resource that checks fences is safe from what it still does. If nobody holds the name the exit code is 1.

All readers lose a read lock, and all holders the permits of a semaphore, which keeps its limit. With --kind read a
writer keeps the lock, with --kind write readers do.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return usageError{errNotForced}
			}
			return o.call(cmd, func(ctx context.Context, s *services) error {
				released, err := s.unlock(ctx, args[0], kind.proto())
				if err != nil {
					return wrap("unlock", args[0], err)
				}
				if err := o.printUnlock(cmd, unlockView{Name: args[0], Released: released}); err != nil || released {
					return err
				}
				return wrap("unlock", args[0], client.ErrNotHeld)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "say that this is meant")
	kind.optional(cmd)
	return cmd
}

// unlock asks for the kind first unless it is given.
func (s *services) unlock(ctx context.Context, name string, kind lockdv1.LockKind) (bool, error) {
	if kind == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.GetResponse, error) {
			return s.locks.Get(ctx, &lockdv1.GetRequest{Name: name})
		})
		if err != nil {
			return false, err
		}
		kind = resp.GetLock().GetKind()
	}
	resp, unsure, err := change(ctx, s, 0, func(ctx context.Context) (*lockdv1.ForceReleaseResponse, error) {
		return s.admin.ForceRelease(ctx, &lockdv1.ForceReleaseRequest{Name: name, Kind: kind})
	})
	switch {
	case unsure && err != nil:
		err = outcome(err)
	case unsure && !resp.GetReleased():
		err = fmt.Errorf("%w: nobody holds it now, and an earlier try may have released it", client.ErrOutcomeUnknown)
	}
	return resp.GetReleased(), err
}

func (o *options) printUnlock(cmd *cobra.Command, v unlockView) error {
	if o.output == outputJSON {
		return printJSON(cmd.OutOrStdout(), v)
	}
	if !v.Released {
		return nil
	}
	return printLine(cmd.OutOrStdout(), "unlocked %s", v.Name)
}
