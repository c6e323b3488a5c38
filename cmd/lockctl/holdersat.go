package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// holdView is a hold of the past, put together from what happened.
type holdView struct {
	whoView
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until"`   // null: it is held, or that is not known
	Held  *millis    `json:"held_ms"` // null: not known
	// Ended is the event that ended it: released, handed_over or lost; "held" if it is held now, empty if it is not known.
	Ended string `json:"ended"`
	whyView

	lease *millis
}

// atView is what history --at prints.
type atView struct {
	Name   string     `json:"name"`
	At     time.Time  `json:"at"`
	HeldBy []holdView `json:"held_by"`
	rememberedView
}

// holdersAt says who held a name at a time.
func (s *services) holdersAt(ctx context.Context, h historyView, at time.Time) shown {
	v := atView{Name: h.Name, At: at, HeldBy: []holdView{}, rememberedView: h.rememberedView}
	now, _ := s.inspect(ctx, h.Name, 1) // without it, it is not known whether a hold goes on
	for _, hold := range holdsOf(h.Events) {
		held := slices.ContainsFunc(now.Holds, func(n holderView) bool { return n.Owner == hold.Owner })
		if hold.Until == nil && held {
			hold.Ended, hold.Held = "held", new(millis(time.Since(hold.Since).Milliseconds()))
		}
		if hold.covers(at) {
			v.HeldBy = append(v.HeldBy, *hold)
		}
	}
	code := 0
	if len(v.HeldBy) == 0 {
		code = exitFailed
	}
	return shown{json: v, text: v.text, code: code}
}

// covers says whether the hold may have lasted at a time.
func (h holdView) covers(at time.Time) bool {
	ended := h.Until
	if ended == nil && h.Ended == "" && h.lease != nil {
		ended = new(h.leaseEnd())
	}
	return !at.Before(h.Since) && (ended == nil || at.Before(*ended))
}

// leaseEnd is when a lease that is not renewed ends by itself.
func (h holdView) leaseEnd() time.Time {
	return h.Since.Add(time.Duration(*h.lease) * time.Millisecond)
}

// holdsOf makes holds of events, the earliest first. Of some holds only the end is known, or that they moved to another
// replica.
func holdsOf(events []happenedView) (holds []*holdView) {
	for _, e := range events {
		switch e.Event {
		case "granted":
			alone := e.Kind == "exclusive" || e.Kind == "fair" || e.Kind == "write"
			for _, h := range holds {
				if alone && h.Until == nil && (h.lease == nil || e.Time.Before(h.leaseEnd())) { // somebody else has the name now
					h.Until = new(e.Time)
				}
			}
			holds = append(holds, &holdView{whoView: e.whoView, Since: e.Time, lease: e.Lease})
		case "resumed", "moved_away":
			h := holdOf(&holds, e)
			if e.Event == "resumed" {
				h.Replica, h.Until = e.Replica, nil
			}
		case "released", "handed_over", "lost":
			h := holdOf(&holds, e)
			h.Until, h.Held, h.Ended, h.whyView = new(e.Time), e.Held, e.Event, e.whyView
			if h.Held == nil {
				h.Held = new(millis(e.Time.Sub(h.Since).Milliseconds()))
			}
		}
	}
	return holds
}

// holdOf is the hold that an event is about, a new one if nothing was known of it. The release of a unary lease at
// another replica has no fence: then the owner alone counts.
func holdOf(holds *[]*holdView, e happenedView) *holdView {
	for _, h := range slices.Backward(*holds) {
		if h.Owner == e.Owner && (h.Fence == e.Fence || e.Fence == 0) && h.Ended == "" {
			return h
		}
	}
	h := &holdView{whoView: e.whoView, Since: e.Time}
	if e.Held != nil {
		h.Since = e.Time.Add(-time.Duration(*e.Held) * time.Millisecond)
	}
	*holds = append(*holds, h)
	return h
}

// end says why the hold ended.
func (h holdView) end() string {
	switch {
	case h.Ended == "held":
		return "it is held now"
	case h.Ended != "" && h.Cause != "":
		return fmt.Sprintf("%s: %s", h.Ended, h.whyView)
	case h.Ended != "":
		return h.Ended
	case h.lease != nil:
		return "not known; unless it was extended, by itself at " + h.leaseEnd().Format(timeLayout)
	case h.Until != nil:
		return "not known; the next one had it then"
	}
	return "not known"
}

func (v atView) text(p *screen) {
	at := v.At.Format(timeLayout)
	if len(v.HeldBy) == 0 {
		p.line("nobody is known to have held this name at %s", at)
	} else {
		p.line("at %s it was held by", at)
		list(p, v.HeldBy, func(h holdView) []any {
			until := any("")
			if h.Until != nil {
				until = h.Until.Format(timeLayout)
			}
			return []any{
				holder(h.Client, ""), h.Kind, h.Since.Format(timeLayout), until, h.Held, h.end(), h.Fence, h.Address, h.Replica,
				h.Annotation, h.Owner,
			}
		}, "CLIENT", "KIND", "SINCE", "UNTIL", "HELD FOR", "ENDED", "FENCE", "ADDRESS", "REPLICA", "ANNOTATION", "OWNER")
	}
	v.rememberedView.text(p, v.At)
}
