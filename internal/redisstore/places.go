package redisstore

import (
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

// Enlist implements lock.Store. With more than placeChunk waiters it may have enlisted some when it fails.
func (s *Store) Enlist(
	ctx context.Context, name string, owners []lock.Owner, place time.Duration,
) ([]int, error) {
	n := s.Prefix + name
	all := make([]int, 0, len(owners))
	for some := range slices.Chunk(owners, placeChunk) {
		q := question{"enlist waiters for", name, lock.Fair, s.Scripts.Enlist.With(layout.Keys(lock.Fair, n),
			withOwners(some, script.Millis(place), layout.Channel(n))...).As(some[0].Tenant())}
		_, err := answer(ctx, s, q, func(a *script.Answer) (struct{}, error) {
			for i := range some {
				all = append(all, int(a.Int(i)))
			}
			return struct{}{}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Leave implements lock.Store. With many waiters, or in a long queue, some may have left when it fails.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	if !kind.Placed() {
		return fmt.Errorf("leave %q: kind %v: %w", name, kind, lock.ErrUnsupported)
	}
	for some := range slices.Chunk(owners, placeChunk) {
		// Each call does a part of a long queue, so that nobody else waits for all of it.
		for from := int64(-1); ; {
			q := question{"leave", name, kind, s.leaveCall(s.Prefix+name, kind, some, from).As(some[0].Tenant())}
			next, err := answer(ctx, s, q, func(a *script.Answer) (next int64, _ error) {
				if a.Code() == script.Done {
					return done, nil
				}
				return a.Int(1), nil
			})
			if err != nil {
				return err
			}
			if from = next; from == done {
				break
			}
		}
	}
	return nil
}

// done, in place of where the next part of a queue begins, says that there is none.
const done = -2

func (s *Store) leaveCall(n string, kind lock.Kind, owners []lock.Owner, from int64) script.Call {
	if kind == lock.Write {
		return s.Scripts.LeaveWrite.With([]string{layout.Writer(n), n}, withOwners(owners, layout.RWChannel(n))...)
	}
	return s.Scripts.LeaveFair.With(layout.Keys(lock.Fair, n), withOwners(owners, layout.Channel(n), from)...)
}

// withOwners are the arguments of a script for some waiters.
func withOwners(owners []lock.Owner, args ...any) []any {
	for _, o := range owners {
		args = append(args, string(o))
	}
	return args
}

// Succeed implements lock.Store.
func (s *Store) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	q := question{"succeed waiters for", name, lock.Fair, s.Scripts.SucceedFair.With(
		layout.Keys(lock.Fair, s.Prefix+name), withOwners(from, string(to), script.Millis(place))...).As(to.Tenant())}
	ahead, err := answer(ctx, s, q, func(a *script.Answer) (int, error) { return int(a.Int(1)), nil })
	if err != nil {
		return lock.PlaceUnknown, err
	}
	return ahead, nil
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, size int) ([]lock.Owner, error) {
	owners, err := s.queue(ctx, name, size)
	if err != nil {
		return nil, fmt.Errorf("queue of %q: %w", name, err)
	}
	return owners, nil
}

func (s *Store) queue(ctx context.Context, name string, size int) ([]lock.Owner, error) {
	if err := lock.Begin(ctx, lock.Fair); err != nil {
		return nil, err
	}
	if size <= 0 {
		return nil, nil
	}
	cmd := redis.NewCmd(ctx, "lrange", layout.Queue(s.Prefix+name), 0, size-1)
	switch err := s.Shared.Do(ctx, pipe.Job{Cmd: cmd, Cost: script.CostOf(size), From: forViews}); {
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
