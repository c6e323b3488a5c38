package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// eventView is what watch prints.
type eventView struct {
	Event  string    `json:"event"` // "unlocked"
	Name   string    `json:"name"`
	Cause  string    `json:"cause"`  // RELEASED, HANDED_OVER, EXPIRED, FORCED, DATA_LOSS, UNKNOWN
	Fence  uint64    `json:"fence"`  // of the hold that ended, 0 if it is not known
	Merged uint32    `json:"merged"` // earlier ends that this line tells as well
	Gap    bool      `json:"gap"`    // the connection was interrupted: it may have been unlocked, or not
	Time   time.Time `json:"time"`
}

func newWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME",
		Short: "Print a line for each end of a hold of a name",
		Long: `watch prints a line for each end of a hold of a name, until it is interrupted: what ended it, and the
fence of the hold. After an interruption of the connection it says so, as it may have missed some.`,
		Args: exactly(1),
		RunE: o.runs(func(ctx context.Context, cmd *cobra.Command, args []string) (shown, error) {
			c, err := o.dialSession("watch")
			if err != nil {
				return shown{}, err
			}
			defer c.Close() //nolint:errcheck // there is nothing to release
			events, err := c.Watch(ctx, args[0])
			if err != nil {
				return shown{}, cmp.Or(context.Cause(ctx), err)
			}
			for e := range events {
				if e.Err != nil {
					return shown{}, e.Err
				}
				v := eventView{
					Event: "unlocked", Name: e.Name, Cause: string(e.Cause), Fence: e.Fence, Merged: e.Merged, Gap: e.Gap,
					Time: time.Now(),
				}
				if err := o.show(cmd, shown{json: v, text: v.text}); err != nil {
					return shown{}, err
				}
			}
			return shown{}, context.Cause(ctx)
		}),
	}
}

func (v eventView) text(p *screen) {
	note := " cause " + v.Cause
	if v.Fence != 0 {
		note += " fence " + strconv.FormatUint(v.Fence, 10)
	}
	if v.Merged > 0 {
		note += fmt.Sprintf(" (and %d before)", v.Merged)
	}
	if v.Gap {
		note = " (maybe: the connection was interrupted)"
	}
	p.line("%s unlocked %s%s", v.Time.Format(time.RFC3339), v.Name, note)
}
