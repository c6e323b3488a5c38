package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// whoView is whose request or hold it was.
type whoView struct {
	Kind       string `json:"kind"`
	Owner      string `json:"owner"`
	Session    string `json:"session" of:"session_id"` // empty for a unary call
	Client     string `json:"client" of:"client_name"`
	Address    string `json:"address" of:"peer"`
	Identity   string `json:"identity,omitempty"` // in the server's clients file
	Replica    string `json:"replica"`
	Annotation string `json:"annotation"`
	Fence      uint64 `json:"fence"`
	Permits    uint32 `json:"permits"` // of limit_changed the limit
}

// whyView is why something happened.
type whyView struct {
	Cause string `json:"cause"`
	By    string `json:"by"`  // who released it by force
	Why   string `json:"why"` // in the words of who did
}

func (v whyView) String() string {
	text := v.Cause
	if v.By != "" || v.Why != "" {
		text = fmt.Sprintf("%s by %s: %s", cmp.Or(v.Cause, "forced"), cmp.Or(v.By, "somebody"), v.Why)
	}
	return text
}

// happenedView is one thing that happened to a name.
type happenedView struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event" of:"what"`
	whoView
	Waited *millis `json:"waited_ms"`
	Held   *millis `json:"held_ms"`
	Lease  *millis `json:"lease_ms"` // of a grant that is not renewed
	whyView
}

// memoryView says since when a replica remembers, or when it was heard of last.
type memoryView struct {
	Replica string     `json:"replica"`
	Since   *time.Time `json:"since"` // null: it remembers nothing
	Gone    *time.Time `json:"gone"`  // null: it answered
}

func memoriesOf(all []*lockdv1.ReplicaMemory) []memoryView {
	views := []memoryView{}
	ago := func(d *durationpb.Duration) *time.Time {
		if d == nil {
			return nil
		}
		return new(time.Now().Add(-d.AsDuration()))
	}
	for _, m := range all {
		views = append(views, memoryView{m.GetReplica(), ago(m.GetReach()), ago(m.GetGone())})
	}
	return views
}

const timeLayout = "2006-01-02 15:04:05.000"

// missing is what is missing of the time since a moment; empty if nothing is.
func (m memoryView) missing(since time.Time) string {
	switch {
	case m.Gone != nil:
		return fmt.Sprintf("%s is gone, and was heard of last at %s: what it remembered is missing", m.Replica,
			m.Gone.Format(timeLayout))
	case m.Since == nil:
		return m.Replica + " remembers nothing: history.events is 0"
	case m.Since.After(since):
		return fmt.Sprintf("%s remembers nothing before %s: what happened there is missing", m.Replica,
			m.Since.Format(timeLayout))
	}
	return ""
}

// rememberedView says since when each replica remembers, as far as that is known.
type rememberedView struct {
	Memories []memoryView `json:"memories"`
	silence
}

// text tells what is missing of the time since a moment.
func (v rememberedView) text(p *screen, since time.Time) {
	if v.StoreError != "" {
		p.line("%s: what other replicas remember is missing", v.StoreError)
	}
	if text := v.missing(); text != "" {
		p.line("%s", text)
	}
	if unknown := int(v.Asked) - int(v.Silent) - v.answered(); unknown > 0 && v.StoreError == "" {
		p.line("%d of %d replicas are too old to remember anything", unknown, v.Asked)
	}
	for _, m := range v.Memories {
		if text := m.missing(since); text != "" {
			p.line("%s", text)
		}
	}
}

// answered is how many of the memories are of replicas that answered.
func (v rememberedView) answered() (n int) {
	for _, m := range v.Memories {
		if m.Gone == nil {
			n++
		}
	}
	return n
}

// historyView is what history prints.
type historyView struct {
	Name   string         `json:"name"`
	Events []happenedView `json:"events"`
	rememberedView
	since time.Time
}

func newHistory(o *options) *cobra.Command {
	var at, since, until string
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show what happened to a name, or who had it at a time",
		Long: `history shows what happened to a name lately on all replicas, the oldest first, and what is missing of it:
each replica remembers the last events of names, and loses them when it ends. With --at it shows who had the name
at that time, since when, for how long, and why that ended. If nothing is known the exit code is 1.

A TIME is 15:04 or 15:04:05, of today or else of yesterday; with 2006-01-02 and a space before, of that day; one of
RFC 3339; or a duration: so long ago.`,
		Args: exactly(1),
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			now := time.Now()
			var times [3]time.Time
			for i, f := range []struct{ flag, text string }{{"at", at}, {"since", since}, {"until", until}} {
				var err error
				if times[i], err = past(f.text, now); err != nil {
					return shown{}, usagef("--%s %s: %w", f.flag, quoted(f.text), err)
				}
			}
			v, err := s.history(ctx, args[0], times[1], times[2])
			switch {
			case err != nil:
				return shown{}, err
			case at != "":
				return s.holdersAt(ctx, v, times[0]), nil
			case len(v.Events) == 0:
				return shown{json: v, text: v.text, code: exitFailed}, nil
			}
			return shown{json: v, text: v.text}, nil
		}),
	}
	cmd.Flags().StringVar(&at, "at", "", "show who had the name at this `TIME`")
	cmd.Flags().StringVar(&since, "since", "", "only what happened since this `TIME`")
	cmd.Flags().StringVar(&until, "until", "", "only what happened until this `TIME`")
	return cmd
}

// past reads a time of the past; zero if there is none.
func past(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	day := now.Format(time.DateOnly) + " "
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, day+text, now.Location()); err == nil {
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
			return t, nil
		}
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("it must be as 15:04, 15:04:05, 2006-01-02 15:04, %s or 90m", time.RFC3339)
	}
	return t, nil
}

// history reads all that is remembered of a name.
func (s *services) history(ctx context.Context, name string, since, until time.Time) (historyView, error) {
	v := historyView{Name: name, since: since}
	ago := func(t time.Time) *durationpb.Duration {
		if t.IsZero() {
			return nil
		}
		return durationpb.New(max(time.Since(t), 0))
	}
	var times []time.Time
	var err error
	v.Events, v.silence, err = pages[happenedView]("events", func(token string) (proto.Message, error) {
		resp, err := ask(ctx, s, s.reads.ListEvents, &lockdv1.ListEventsRequest{
			Name: name, PageSize: pageSize, PageToken: token, MaxAge: ago(since), MinAge: ago(until),
		})
		now := time.Now()
		for _, e := range resp.GetEvents() {
			times = append(times, now.Add(-e.GetAge().AsDuration()))
		}
		v.Memories = memoriesOf(resp.GetMemories())
		return resp, err
	})
	for i := range v.Events {
		v.Events[i].Time = times[i]
	}
	return v, err
}

func (v historyView) text(p *screen) {
	if len(v.Events) == 0 {
		p.line("nothing is remembered of this name")
	} else {
		list(p, v.Events, func(e happenedView) []any {
			event := e.Event
			if e.Permits > 0 {
				event += fmt.Sprintf(" %d", e.Permits)
			}
			return []any{
				e.Time.Format(timeLayout), cmp.Or(event, "not known"), e.Kind, e.Client, e.Waited, e.Held, e.whyView, e.Fence,
				e.Address, e.Replica, e.Annotation, e.Owner,
			}
		}, "TIME", "EVENT", "KIND", "CLIENT", "WAITED", "HELD", "WHY", "FENCE", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER")
	}
	v.rememberedView.text(p, v.since)
}
