package main

import (
	"cmp"
	"context"
	"slices"
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

// benchView is what bench prints. Latencies are those of Lock.
type benchView struct {
	Callers        int     `json:"callers"`
	Names          int     `json:"names"`
	HoldMS         float64 `json:"hold_ms"`
	DurationMS     float64 `json:"duration_ms"`
	Pairs          int     `json:"pairs"`
	PairsPerSecond float64 `json:"pairs_per_second"`
	P50MS          float64 `json:"lock_p50_ms"`
	P99MS          float64 `json:"lock_p99_ms"`
	P999MS         float64 `json:"lock_p999_ms"`
}

func newBench(o *options) *cobra.Command {
	var ld load
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many locks per second a server gives",
		Long: `bench has many callers lock and unlock as fast as they can, over one session, and tells how many pairs
were done per second and how long Lock took. Each caller waits for its answer before it asks again.`,
		Args: exactly(0),
		RunE: o.runs(func(ctx context.Context, _ *cobra.Command, _ []string) (shown, error) {
			ld.names = cmp.Or(ld.names, ld.callers)
			if ld.callers < 1 || ld.names < 1 || ld.duration <= 0 || ld.hold < 0 {
				return shown{}, usagef("--callers, --names and --duration must be positive")
			}
			c, err := o.dialSession("bench")
			if err != nil {
				return shown{}, err
			}
			defer c.Close() //nolint:errcheck // all locks are released
			v, err := ld.run(ctx, c)
			return shown{json: v, text: v.text}, err
		}),
	}
	cmd.Flags().IntVar(&ld.callers, "callers", 64, "how many lock at the same time")
	cmd.Flags().DurationVar(&ld.duration, "duration", 10*time.Second, "for how long")
	cmd.Flags().IntVar(&ld.names, "names", 0, "how many names they share (default one for each)")
	cmd.Flags().DurationVar(&ld.hold, "hold", 0, "how long each holds its lock")
	return cmd
}

// run does the load until its time is over; what is under way then is finished and counts.
func (ld load) run(ctx context.Context, c *client.Client) (benchView, error) {
	if _, err := ld.pair(ctx, c, "lockctl-bench:warm"); err != nil {
		return benchView{}, err
	}
	begun := time.Now()
	took, errs := make([][]time.Duration, ld.callers), make([]error, ld.callers)
	var wg sync.WaitGroup
	for i := range ld.callers {
		name := "lockctl-bench:" + strconv.Itoa(i%ld.names)
		wg.Go(func() {
			for time.Since(begun) < ld.duration && ctx.Err() == nil && errs[i] == nil {
				var d time.Duration
				if d, errs[i] = ld.pair(ctx, c, name); errs[i] == nil {
					took[i] = append(took[i], d)
				}
			}
		})
	}
	wg.Wait()
	if err := cmp.Or(context.Cause(ctx), cmp.Or(errs...)); err != nil {
		return benchView{}, err
	}
	return ld.view(slices.Concat(took...), time.Since(begun)), nil
}

// pair locks and unlocks once, and says how long Lock took.
func (ld load) pair(ctx context.Context, c *client.Client, name string) (took time.Duration, err error) {
	begun := time.Now()
	l, err := c.Lock(ctx, name)
	if err != nil {
		return 0, err
	}
	took = time.Since(begun)
	if ld.hold > 0 {
		time.Sleep(ld.hold)
	}
	return took, l.Unlock(context.WithoutCancel(ctx))
}

func (ld load) view(took []time.Duration, within time.Duration) benchView {
	slices.Sort(took)
	percentile := func(p float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return ms(took[int(p*float64(len(took)))])
	}
	return benchView{
		Callers: ld.callers, Names: ld.names, HoldMS: ms(ld.hold), DurationMS: ms(within),
		Pairs: len(took), PairsPerSecond: float64(len(took)) / within.Seconds(),
		P50MS: percentile(0.5), P99MS: percentile(0.99), P999MS: percentile(0.999),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (v benchView) text(p *screen) {
	p.line("%s on %s, %.1f s: %s, %.0f per second", counted(v.Callers, "caller"), counted(v.Names, "name"),
		v.DurationMS/1000, counted(v.Pairs, "pair"), v.PairsPerSecond)
	p.line("lock: p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms", v.P50MS, v.P99MS, v.P999MS)
}
