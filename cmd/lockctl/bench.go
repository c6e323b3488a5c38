package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockd-io/lockd/client"
)

// load is what bench does.
type load struct {
	callers  int
	duration time.Duration
	names    int
	hold     time.Duration
}

// benchView is what bench prints. Its keys are part of what lockctl promises. Latencies are those of Lock.
type benchView struct {
	Callers        int     `json:"callers"`
	Names          int     `json:"names"`
	HoldMS         float64 `json:"hold_ms"`
	DurationMS     float64 `json:"duration_ms"`
	Pairs          uint64  `json:"pairs"`
	PairsPerSecond float64 `json:"pairs_per_second"`
	P50MS          float64 `json:"lock_p50_ms"`
	P99MS          float64 `json:"lock_p99_ms"`
	P999MS         float64 `json:"lock_p999_ms"`
}

func newBench(o *options) *cobra.Command {
	var ld load
	var hot bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many locks per second a server gives",
		Long: `bench has many callers lock and unlock as fast as they can, over one session, and tells how many pairs
were done per second and how long Lock took. Each caller waits for its answer before it asks again.`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ld.names == 0 {
				ld.names = ld.callers
			}
			if hot {
				ld.names = 1
			}
			if ld.callers < 1 || ld.names < 1 || ld.duration <= 0 || ld.hold < 0 {
				return usagef("--callers, --names and --duration must be positive")
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := o.dialSession("bench")
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // all locks are released
			v, err := ld.run(ctx, c)
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			if o.output == outputJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			return v.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&ld.callers, "callers", 64, "how many lock at the same time")
	cmd.Flags().DurationVar(&ld.duration, "duration", 10*time.Second, "for how long")
	cmd.Flags().IntVar(&ld.names, "names", 0, "how many names they share (default one for each)")
	cmd.Flags().BoolVar(&hot, "hot", false, "they all want the same name")
	cmd.Flags().DurationVar(&ld.hold, "hold", 0, "how long each holds its lock")
	return cmd
}

// run does the load until its time is over; what is under way then is finished and counts.
func (ld load) run(ctx context.Context, c *client.Client) (benchView, error) {
	if err := ld.pair(ctx, c, "lockctl-bench:warm", new(histogram)); err != nil {
		return benchView{}, err
	}
	begun := time.Now()
	hists, errs := make([]histogram, ld.callers), make([]error, ld.callers)
	var wg sync.WaitGroup
	for i := range ld.callers {
		name := "lockctl-bench:" + strconv.Itoa(i%ld.names)
		wg.Go(func() {
			for time.Since(begun) < ld.duration && ctx.Err() == nil && errs[i] == nil {
				errs[i] = ld.pair(ctx, c, name, &hists[i])
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	all := new(histogram)
	for i := range hists {
		all.merge(&hists[i])
	}
	if ctx.Err() != nil {
		return benchView{}, context.Cause(ctx)
	}
	return ld.view(all, took), cmp.Or(errs...)
}

func (ld load) pair(ctx context.Context, c *client.Client, name string, h *histogram) error {
	begun := time.Now()
	l, err := c.Lock(ctx, name)
	if err != nil {
		return err
	}
	h.add(time.Since(begun))
	if ld.hold > 0 {
		time.Sleep(ld.hold)
	}
	return l.Unlock(context.WithoutCancel(ctx))
}

func (ld load) view(h *histogram, took time.Duration) benchView {
	return benchView{
		Callers: ld.callers, Names: ld.names, HoldMS: ms(ld.hold), DurationMS: ms(took),
		Pairs: h.total, PairsPerSecond: float64(h.total) / took.Seconds(),
		P50MS: ms(h.percentile(0.5)), P99MS: ms(h.percentile(0.99)), P999MS: ms(h.percentile(0.999)),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (v benchView) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s on %s, %.1f s: %s, %.0f per second\nlock: p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms\n",
		counted(v.Callers, "caller"), counted(v.Names, "name"), v.DurationMS/1000, counted(v.Pairs, "pair"), v.PairsPerSecond,
		v.P50MS, v.P99MS, v.P999MS)
	return err
}
