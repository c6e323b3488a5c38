package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// busyView is one line of top.
type busyView struct {
	Name     string  `json:"name"`
	Waiters  uint32  `json:"waiters"`
	Longest  *millis `json:"longest_wait_ms"` // of those who wait now
	Holders  uint32  `json:"holders"`
	Waiting  float64 `json:"waiting"`  // how many waited on an average
	Held     float64 `json:"held"`     // how many held it on an average
	Turnover float64 `json:"turnover"` // grants in a second
}

// topView is what top prints.
type topView struct {
	Time   time.Time  `json:"time"`
	By     string     `json:"by"`
	Window millis     `json:"window_ms"`
	Names  []busyView `json:"names"`
	rememberedView
}

var orders = map[string]lockdv1.ListBusiestRequest_Order{
	"waiting": lockdv1.ListBusiestRequest_ORDER_WAITING, "held": lockdv1.ListBusiestRequest_ORDER_HELD,
	"turnover": lockdv1.ListBusiestRequest_ORDER_TURNOVER,
}

// clearScreen has a terminal show what follows from its top on.
const clearScreen = "\x1b[H\x1b[2J"

func newTop(o *options) *cobra.Command {
	var by, prefix string
	var window, interval time.Duration
	var most uint32
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the names that are used most, again and again",
		Long: `top shows the names that clients of lockd used most on all replicas in the last minute, or --window, until
it is interrupted: by how many waited for them, by for how much of the time they were held, or by how many grants
there were.`,
		Args: exactly(0),
		RunE: o.runs(func(ctx context.Context, cmd *cobra.Command, _ []string) (shown, error) {
			order, known := orders[by]
			if !known || window <= 0 || interval <= 0 {
				return shown{}, usagef("--by must be waiting, held or turnover, and --window and --interval more than 0")
			}
			s, err := o.dial()
			if err != nil {
				return shown{}, err
			}
			defer s.close()
			for {
				v, err := s.busiest(ctx, &lockdv1.ListBusiestRequest{
					Order: order, PageSize: most, Prefix: prefix, Window: durationpb.New(window),
				})
				v.By, v.Window = by, millis(window.Milliseconds())
				now := shown{json: v, text: v.text}
				if err != nil || once {
					return now, err
				}
				if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && o.output == outputText {
					_, _ = io.WriteString(cmd.OutOrStdout(), clearScreen)
				}
				if err := o.show(cmd, now); err != nil {
					return shown{}, err
				}
				if sleep(ctx, interval); ctx.Err() != nil {
					return shown{}, context.Cause(ctx)
				}
			}
		}),
	}
	cmd.Flags().StringVar(&by, "by", "waiting", "the busiest by `waiting`, held or turnover first")
	cmd.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this `text`")
	cmd.Flags().DurationVar(&window, "window", time.Minute, "the time that counts, until now")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "the time between two looks")
	cmd.Flags().Uint32Var(&most, "most", 20, "how many names to show at most")
	cmd.Flags().BoolVar(&once, "once", false, "show them once")
	return cmd
}

func (s *services) busiest(ctx context.Context, req *lockdv1.ListBusiestRequest) (topView, error) {
	resp, err := ask(ctx, s, s.reads.ListBusiest, req)
	v := topView{Time: time.Now()}
	v.Names = view[struct {
		Names []busyView `json:"names"`
	}](resp).Names
	v.silence = view[silence](resp)
	v.count()
	v.Memories = memoriesOf(resp.GetMemories())
	return v, err
}

func (v topView) text(p *screen) {
	p.line("%s, the last %s, by %s", v.Time.Format(time.TimeOnly), v.Window, v.By)
	average := func(n float64) string { return fmt.Sprintf("%.2f", n) }
	list(p, v.Names, func(b busyView) []any {
		return []any{b.Name, b.Waiters, b.Longest, average(b.Waiting), b.Holders, average(b.Held), average(b.Turnover)}
	}, "NAME", "WAITERS", "LONGEST", "AVG WAITERS", "HOLDERS", "AVG HOLDERS", "GRANTS/S")
	v.rememberedView.text(p, v.Time.Add(-time.Duration(v.Window)*time.Millisecond))
}
