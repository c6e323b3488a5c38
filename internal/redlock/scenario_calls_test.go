package redlock

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// do makes a call of a scenario.
func (p *player) do(s *Store, who, what string, words []string) (r result) {
	ctx, c := p.Context(), p.claim(who, words)
	renewal := lock.Renewal{
		Name: "n", Kind: c.Kind, Owner: c.Owner, Fence: p.told["n "+who].Fence, TTL: c.TTL, Seen: time.Now(), Sole: true,
	}
	if n, err := strconv.Atoi(after(words, "level")); err == nil {
		renewal.Level = uint32(n) //nolint:gosec // small
	}
	if c.Owner.Repeats() {
		renewal.Fence = 0
	}
	var err error
	switch what {
	case "takes":
		gs := make([]lock.Grant, 1)
		if slices.Contains(words, "together") {
			gs, err = s.AcquireAll(ctx, []lock.Claim{c})
		} else {
			gs[0], err = s.Acquire(ctx, c)
		}
		if err == nil {
			r.fence = gs[0].Fence
		}
	case "releases":
		var res lock.Returned
		res, err = s.Release(ctx, p.back(who, words))
		if r.fence = res.HandedOver; r.fence != 0 {
			r.word = "handed"
		}
	case "renews":
		var rs []lock.Renewal
		for o := range strings.SplitSeq(who, ",") {
			r := renewal
			told := p.told["n "+o]
			r.Owner, r.Kind, r.Fence = owner(o), cmp.Or(told.Kind, r.Kind), told.Fence
			rs = append(rs, r)
		}
		errs := make([]error, len(rs))
		s.Renew(ctx, rs, func(i int, e error) { errs[i] = e })
		err = cmp.Or(errs...)
	case "extends":
		r.retry, err = s.Extend(ctx, renewal)
	case "shortens":
		err = s.Shorten(ctx, renewal)
	case "raises":
		r.fence, err = s.Raise(ctx, c)
	case "forces":
		var held bool
		if held, err = s.ForceRelease(ctx, "n", c.Kind); err == nil && !held {
			r.word = "free"
		}
	case "probes":
		_, err = s.Probe(ctx)
	case "looks":
		var st lock.State
		st, err = s.Look(ctx, c.Name)
		r = result{by: st.Owner, fence: st.Fence, count: st.Count, retry: st.TTL}
		if !st.Held {
			r.word = "free"
		}
	default:
		p.wrong("nobody knows %s", what)
	}
	if held, is := errors.AsType[*lock.HeldError](err); is {
		r.by, r.retry = held.HeldBy, held.RetryAfter
	}
	if err != nil || r.word == "" {
		r.word = word(err)
	}
	return r
}

// word is that for an error.
func word(err error) string {
	gone, isGone := errors.AsType[*lock.GoneError](err)
	switch {
	case err == nil:
		return "ok"
	case isGone && gone.Reason == lock.LostData:
		return "lost"
	case isGone:
		return "forced"
	}
	for _, e := range []struct {
		is   error
		word string
	}{
		{lock.ErrHeld, "held"},
		{lock.ErrOver, "over"},
		{lock.ErrNotHeld, "notheld"},
		{lock.ErrStale, "stale"},
		{lock.ErrStoreFull, "full"},
		{lock.ErrKindMismatch, "mismatched"},
		{lock.ErrNoQuorum, "noquorum"},
		{lock.ErrOutcomeUnknown, "unknown"},
		{lock.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, e.is) {
			return e.word
		}
	}
	return err.Error()
}
