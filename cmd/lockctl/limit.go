package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// limitView is what limit prints. Its keys are part of what lockctl promises.
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
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remove:
				return o.operate(cmd, "limit --remove", func(ctx context.Context, s *services) error {
					return o.removeLimit(ctx, cmd, s, args[0])
				})
			case adopt:
				return o.operate(cmd, "limit --adopt", func(ctx context.Context, s *services) error {
					return o.adoptLimit(ctx, cmd, s, args[0], args[1])
				})
			}
			return o.call(cmd, func(ctx context.Context, s *services) error {
				if len(args) == 1 {
					return o.showLimit(ctx, cmd, s, args[0])
				}
				return o.setLimit(ctx, cmd, s, args[0], args[1])
			})
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "forget the limit, if no permit is out")
	cmd.Flags().BoolVar(&adopt, "adopt", false, "have a number that Redisson set be a semaphore")
	return cmd
}

func (o *options) removeLimit(ctx context.Context, cmd *cobra.Command, s *services, name string) error {
	resp, err := certain(ctx, s, func(ctx context.Context) (*lockdv1.RemoveLimitResponse, error) {
		return s.admin.RemoveLimit(ctx, &lockdv1.RemoveLimitRequest{Name: name})
	})
	if err != nil {
		return wrap("limit of", name, err)
	}
	previous := resp.GetPrevious()
	return o.printLimit(cmd, limitView{Name: name, Previous: &previous})
}

func (o *options) adoptLimit(ctx context.Context, cmd *cobra.Command, s *services, name, limit string) error {
	n, err := parseLimit(limit)
	if err != nil {
		return err
	}
	_, err = certain(ctx, s, func(ctx context.Context) (*lockdv1.AdoptLimitResponse, error) {
		return s.admin.AdoptLimit(ctx, &lockdv1.AdoptLimitRequest{Name: name, Limit: n})
	})
	if err != nil {
		return wrap("limit of", name, err)
	}
	return o.printLimit(cmd, limitView{Name: name, Limit: n, Previous: &n})
}

func parseLimit(limit string) (uint32, error) {
	n, err := strconv.ParseUint(limit, 10, 31)
	if err != nil || n == 0 {
		return 0, usagef("the limit must be a number between 1 and 2147483647, not %s", quoted(limit))
	}
	return uint32(n), nil
}

func (o *options) showLimit(ctx context.Context, cmd *cobra.Command, s *services, name string) error {
	resp, err := retry(ctx, s, 0, func(ctx context.Context) (*lockdv1.GetResponse, error) {
		return s.locks.Get(ctx, &lockdv1.GetRequest{Name: name})
	})
	if err != nil {
		return wrap("limit of", name, err)
	}
	v := limitView{Name: name, Limit: resp.GetLock().GetLimit()}
	if err := o.printLimit(cmd, v); err != nil {
		return err
	}
	if v.Limit == 0 {
		return codeError{code: exitFailed} // the output says it
	}
	return nil
}

func (o *options) setLimit(ctx context.Context, cmd *cobra.Command, s *services, name, limit string) error {
	n, err := parseLimit(limit)
	if err != nil {
		return err
	}
	resp, err := certain(ctx, s, func(ctx context.Context) (*lockdv1.SetLimitResponse, error) {
		return s.locks.SetLimit(ctx, &lockdv1.SetLimitRequest{Name: name, Limit: n})
	})
	if err != nil {
		return wrap("limit of", name, err)
	}
	previous := resp.GetPrevious()
	return o.printLimit(cmd, limitView{Name: name, Limit: n, Previous: &previous})
}

func (o *options) printLimit(cmd *cobra.Command, v limitView) error {
	switch {
	case o.output == outputJSON:
		return printJSON(cmd.OutOrStdout(), v)
	case v.Previous == nil:
		return printLine(cmd.OutOrStdout(), "%d", v.Limit)
	case v.Limit == 0:
		return printLine(cmd.OutOrStdout(), "limit of %s is removed, was %d", v.Name, *v.Previous)
	case *v.Previous == 0:
		return printLine(cmd.OutOrStdout(), "limit of %s is %d, there was none", v.Name, v.Limit)
	}
	return printLine(cmd.OutOrStdout(), "limit of %s is %d, was %d", v.Name, v.Limit, *v.Previous)
}
