package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

// placeChunk is how many waiters one script call is about.
const placeChunk = 500

// Enlist implements lock.Store. Of very many waiters it may have done some when it fails.
func (s *Store) Enlist(
	ctx context.Context, name string, owners []lock.Owner, place time.Duration,
) ([]int, error) {
	n := s.Prefix + name
	answers := make([]int, 0, len(owners))
	for some := range slices.Chunk(owners, placeChunk) {
		a, err := s.askPlaces(ctx, lock.Fair, s.Scripts.Enlist, layout.FairKeys(n), some, script.Millis(place),
			layout.Channel(n))
		if err == nil {
			for i := range some {
				answers = append(answers, int(a.Int(i)))
			}
			err = a.Err
		}
		if err != nil {
			return nil, fmt.Errorf("enlist %d waiters for %q: %w", len(owners), name, err)
		}
	}
	return answers, nil
}

// Leave implements lock.Store. Of very many waiters it may have done some when it fails.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	if !kind.Placed() {
		return fmt.Errorf("leave %q: kind %v: %w", name, kind, lock.ErrUnsupported)
	}
	leave := s.leaveFair
	if kind == lock.Write {
		leave = s.leaveWrite
	}
	for some := range slices.Chunk(owners, placeChunk) {
		if err := leave(ctx, s.Prefix+name, some); err != nil {
			return fmt.Errorf("leave %q: %w", name, err)
		}
	}
	return nil
}

func (s *Store) leaveWrite(ctx context.Context, n string, owners []lock.Owner) error {
	_, err := s.askPlaces(ctx, lock.Write, s.Scripts.LeaveWrite, []string{layout.Writer(n), n}, owners,
		layout.RWChannel(n))
	return err
}

// leaveFair makes as many calls as it takes. A long queue is read in parts, so that nobody waits for all of it.
func (s *Store) leaveFair(ctx context.Context, n string, owners []lock.Owner) error {
	for from := int64(-1); ; {
		a, err := s.askPlaces(ctx, lock.Fair, s.Scripts.LeaveFair, layout.FairKeys(n), owners, layout.Channel(n), from)
		if err != nil || a.Code() == script.Done {
			return cmp.Or(err, a.Err)
		}
		if from = a.Int(1); a.Err != nil {
			return a.Err
		}
	}
}

// Succeed implements lock.Store.
func (s *Store) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	err := script.Begin(ctx, lock.Fair)
	var a script.Answer
	if err == nil {
		args := []any{string(to), script.Millis(place)}
		for _, o := range from {
			args = append(args, string(o))
		}
		a, err = s.Ask(ctx, s.Scripts.SucceedFair.With(layout.FairKeys(s.Prefix+name), args...).As(to.Tenant()))
	}
	ahead := int(a.Int(1))
	if err = cmp.Or(err, a.Err); err != nil {
		return lock.PlaceUnknown, fmt.Errorf("succeed %q for %q: %w", from, name, err)
	}
	return ahead, nil
}

// askPlaces runs a script for some waiters, who follow its other arguments.
func (s *Store) askPlaces(
	ctx context.Context, kind lock.Kind, sc *script.Script, keys []string, owners []lock.Owner, args ...any,
) (script.Answer, error) {
	if err := script.Begin(ctx, kind); err != nil {
		return script.Answer{}, err
	}
	for _, o := range owners {
		args = append(args, string(o))
	}
	return s.Ask(ctx, sc.With(keys, args...).As(owners[0].Tenant()))
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	owners, err := s.queue(ctx, name, max(from, 0), size)
	if err != nil {
		return nil, fmt.Errorf("queue of %q: %w", name, err)
	}
	return owners, nil
}

func (s *Store) queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	if err := script.Begin(ctx, lock.Fair); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, nil
	}
	ctx, cancel := s.Bounded(pipe.As(ctx, forViews))
	defer cancel()
	cmd := redis.NewCmd(ctx, "lrange", layout.Queue(s.Prefix+name), from, from+size-1)
	switch err := s.Shared.Do(ctx, cmd, script.CostOf(size)); {
	case err == nil || errors.Is(err, redis.Nil):
	case redis.HasErrorPrefix(err, "WRONGTYPE"): // it only reads
		return nil, fmt.Errorf("%w: %w", lock.ErrKindMismatch, err)
	default:
		return nil, s.Failed(err)
	}
	a, err := s.Answered(cmd, nil)
	if err != nil {
		return nil, err
	}
	var owners []lock.Owner
	for i := range a.List {
		owners = append(owners, lock.Owner(a.Text(i)))
	}
	return owners, a.Err
}
