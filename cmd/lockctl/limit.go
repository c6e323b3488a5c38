package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

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
		RunE: func(cmd *cobra.Command, args []string) error {
			name, run := args[0], o.asks
			var n uint32
			var err error
			if len(args) == 2 {
				if n, err = parseLimit(args[1]); err != nil {
					return err
				}
			}
			typed := "limit --adopt"
			if remove {
				typed = "limit --remove"
			}
			if remove || adopt {
				run = func(q question) func(*cobra.Command, []string) error { return o.operates(typed, q) }
			}
			return run(func(ctx context.Context, s *services, _ []string) (shown, error) {
				v, err := s.limit(ctx, name, n, remove, adopt)
				code := 0
				if v.Previous == nil && v.Limit == 0 {
					code = exitFailed // the output says it
				}
				return shown{json: v, text: v.text, code: code}, err
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "forget the limit, if no permit is out")
	cmd.Flags().BoolVar(&adopt, "adopt", false, "have a number that Redisson set be a semaphore")
	return cmd
}

// limit shows a limit, sets it to n, removes it, or adopts n.
func (s *services) limit(ctx context.Context, name string, n uint32, remove, adopt bool) (limitView, error) {
	v := limitView{Name: name, Limit: n}
	switch {
	case remove:
		resp, err := certain(ctx, s, s.admin.RemoveLimit, &lockdv1.RemoveLimitRequest{Name: name})
		v.Previous = new(resp.GetPrevious())
		return v, err
	case adopt:
		_, err := certain(ctx, s, s.admin.AdoptLimit, &lockdv1.AdoptLimitRequest{Name: name, Limit: n})
		v.Previous = &n
		return v, err
	case n > 0:
		resp, err := certain(ctx, s, s.locks.SetLimit, &lockdv1.SetLimitRequest{Name: name, Limit: n})
		v.Previous = new(resp.GetPrevious())
		return v, err
	}
	resp, err := ask(ctx, s, s.locks.Get, &lockdv1.GetRequest{Name: name})
	v.Limit = resp.GetLock().GetLimit()
	return v, err
}

func parseLimit(limit string) (uint32, error) {
	n, err := strconv.ParseUint(limit, 10, 31)
	if err != nil || n == 0 {
		return 0, usagef("the limit must be a number between 1 and 2147483647, not %s", quoted(limit))
	}
	return uint32(n), nil
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
