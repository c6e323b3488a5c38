package renew

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

// Shorten implements lock.Store.
func (s *Renewer) Shorten(ctx context.Context, r lock.Renewal) error {
	err := lock.Begin(ctx, r.Kind)
	if err == nil {
		err = s.NowOrNever(ctx, func(ctx context.Context, before int64) error { return s.shorten(ctx, r, before) })
	}
	if err != nil {
		return fmt.Errorf("shorten %q: %w", r.Name, err)
	}
	return nil
}

// Late is what a script answers that did nothing because it was executed too late.
const Late = -2

// NowOrNever makes a call that must not be executed late. before, in ms since 1970 by the clock of Redis, is when the
// script must do nothing any more. It is earlier than the end of the operation here. If the outcome is unknown,
// NowOrNever returns only at that end, so the call is not executed after it returned.
func (s *Renewer) NowOrNever(ctx context.Context, call func(ctx context.Context, before int64) error) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	now, err := s.clock(ctx)
	if err != nil {
		return err
	}
	end, _ := ctx.Deadline() // Bounded gave it one, also if ctx is cancelled
	left := time.Until(end)
	if err = call(ctx, now.Add(left-lock.Drift(left)).UnixMilli()); errors.Is(err, lock.ErrOutcomeUnknown) {
		time.Sleep(time.Until(end))
	}
	return err
}

func (s *Renewer) shorten(ctx context.Context, r lock.Renewal, before int64) error {
	cmd, err := s.shortenCall(r, before).As(r.Owner.For(r.Tenant)).Run(ctx, s.Shared)
	if err != nil {
		return s.Failed(err)
	}
	switch answer, err := cmd.Int64(); {
	case err != nil:
		return s.Failed(fmt.Errorf("%w: %w", script.ErrBadAnswer, err))
	case answer == Late:
		return lock.ErrUnavailable
	default:
		answers := []int64{answer}
		s.whyGone(ctx, renewals{[]lock.Renewal{r}, []int{0}}, answers)
		return renewalError(answers[0])
	}
}

// clock reads the time of Redis. Its errors are lock.ErrUnavailable, as nothing else was done.
func (s *Renewer) clock(ctx context.Context) (time.Time, error) {
	cmd := redis.NewCmd(ctx, "time")
	err := s.Shared.Do(ctx, pipe.Job{Cmd: cmd})
	var parts []int64
	if err == nil {
		parts, err = cmd.Int64Slice()
	}
	if err == nil && len(parts) != 2 {
		err = script.ErrBadAnswer
	}
	if err != nil {
		s.Metrics.CountFailure(lock.ErrUnavailable)
		//nolint:errorlint // it is not unknown
		return time.Time{}, fmt.Errorf("read the time of redis: %w: %v", lock.ErrUnavailable, err)
	}
	return time.Unix(parts[0], parts[1]*1000), nil
}

func (s *Renewer) shortenCall(r lock.Renewal, before int64) script.Call {
	n := s.Prefix + r.Name
	keys := []string{n, layout.Token(n)}
	channel, more := layout.Channel(n), layout.HoldBase(n)
	switch r.Kind {
	case lock.Fair:
		keys = append(keys, layout.Queue(n))
	case lock.Read, lock.Write:
		channel = layout.RWChannel(n)
	case lock.Semaphore:
		channel, more = layout.PermitChannel(n), layout.PermitsOut(n)
	default:
	}
	return s.Scripts.Shorten.With(keys, r.Kind.String(), string(r.Owner), script.Decimal(r.Fence), script.Millis(r.TTL),
		r.Permits, more, channel, s.FenceMillis, before)
}
