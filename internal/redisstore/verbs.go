package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// What acquire.lua and release.lua answer first.
const (
	answerHeld     = 0
	answerDone     = 1
	answerHandOver = 2
	answerNotHeld  = -1
	answerStale    = -2
	answerMismatch = -3
)

// millis is a duration for Redis: whole milliseconds, rounded up, because a lease must not end before the time that
// was told; and never 0, which would delete the key.
func millis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}

// ttlOf is a PTTL reply as a duration.
func ttlOf(pttl int64) time.Duration {
	if pttl < 0 {
		return broker.NoTTL
	}
	return time.Duration(pttl) * time.Millisecond
}

func decimal(f broker.Fence) string { return strconv.FormatUint(uint64(f), 10) }

// Acquire implements broker.Store.
func (s *Store) Acquire(ctx context.Context, c broker.Claim) (broker.Grant, error) {
	if err := begin(ctx, c.Kind); err != nil {
		return broker.Grant{}, acquireFailed(c, err)
	}
	keys, args := s.acquireCall(c)
	return granted(c)(s.ask(ctx, s.scripts.acquire, keys, args...))
}

// StartAcquire implements broker.Store.
func (s *Store) StartAcquire(c broker.Claim, done func(broker.Grant, error)) {
	if err := begin(context.Background(), c.Kind); err != nil {
		go done(broker.Grant{}, acquireFailed(c, err))
		return
	}
	keys, args := s.acquireCall(c)
	s.start(s.scripts.acquire, keys, args, func(a answer, err error) { done(granted(c)(a, err)) })
}

func acquireFailed(c broker.Claim, err error) error { return fmt.Errorf("acquire %q: %w", c.Name, err) }

func (s *Store) acquireCall(c broker.Claim) (keys []string, args []any) {
	n := s.prefix + c.Name
	return []string{n, tokenKey(n)}, []any{string(c.Owner), c.Count, millis(c.TTL), uint64(c.Fence), s.fenceMillis}
}

// granted reads what acquire.lua answered.
func granted(c broker.Claim) func(answer, error) (broker.Grant, error) {
	return func(a answer, err error) (broker.Grant, error) {
		if err != nil {
			return broker.Grant{}, acquireFailed(c, err)
		}
		g := broker.Grant{}
		switch a.code() {
		case answerDone:
			g = broker.Grant{Fence: a.fence(1), TTL: ttlOf(a.int(2))}
			err = a.err
		case answerHeld:
			err = &broker.HeldError{RetryAfter: ttlOf(a.int(1)), HeldBy: broker.Owner(a.text(2))}
			if a.err != nil {
				err = a.err
			}
		default:
			err = a.refusal()
		}
		if err != nil {
			return broker.Grant{}, acquireFailed(c, err)
		}
		return g, nil
	}
}

// Release implements broker.Store.
func (s *Store) Release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	if err := begin(ctx, r.Kind); err != nil {
		return broker.Returned{}, releaseFailed(r, err)
	}
	keys, args := s.releaseCall(r)
	return returned(r)(s.ask(ctx, s.scripts.release, keys, args...))
}

// StartRelease implements broker.Store.
func (s *Store) StartRelease(r broker.Return, done func(broker.Returned, error)) {
	if err := begin(context.Background(), r.Kind); err != nil {
		go done(broker.Returned{}, releaseFailed(r, err))
		return
	}
	keys, args := s.releaseCall(r)
	s.start(s.scripts.release, keys, args, func(a answer, err error) { done(returned(r)(a, err)) })
}

func releaseFailed(r broker.Return, err error) error {
	return fmt.Errorf("release %q: %w", r.Name, err)
}

func (s *Store) releaseCall(r broker.Return) (keys []string, args []any) {
	var next broker.Successor
	if r.Next != nil && r.Remaining == 0 {
		next = *r.Next
	}
	n := s.prefix + r.Name
	return []string{n, tokenKey(n), channelKey(n)},
		[]any{string(r.Owner), decimal(r.Fence), r.Remaining, string(next.Owner), millis(next.TTL), s.fenceMillis}
}

// returned reads what release.lua answered.
func returned(r broker.Return) func(answer, error) (broker.Returned, error) {
	return func(a answer, err error) (broker.Returned, error) {
		if err != nil {
			return broker.Returned{}, releaseFailed(r, err)
		}
		res := broker.Returned{}
		switch a.code() {
		case answerDone:
			res, err = broker.Returned{Listeners: int(a.int(1))}, a.err
		case answerHandOver:
			res, err = broker.Returned{HandedOver: a.fence(1)}, a.err
		default:
			err = a.refusal()
		}
		if err != nil {
			return broker.Returned{}, releaseFailed(r, err)
		}
		return res, nil
	}
}

// ForceRelease implements broker.Store.
//
// The message on the control channel carries the database and the whole key: replicas with another prefix or another
// database hear it too, as Redis has one space of channels, and take only what is theirs.
func (s *Store) ForceRelease(ctx context.Context, name string, kind broker.Kind) (bool, error) {
	held, err := s.forceRelease(ctx, name, kind)
	if err != nil {
		return false, fmt.Errorf("force release %q: %w", name, err)
	}
	return held, nil
}

func (s *Store) forceRelease(ctx context.Context, name string, kind broker.Kind) (bool, error) {
	if err := begin(ctx, kind); err != nil {
		return false, err
	}
	n := s.prefix + name
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	cmd, err := s.scripts.force.run(ctx, s.pipelined, []string{n, channelKey(n)}, controlChannel, s.forcedMark+n)
	if err != nil {
		return false, s.failed(err)
	}
	code, err := cmd.Int64()
	switch {
	case err != nil:
		return false, s.failed(err)
	case code == answerMismatch:
		return false, broker.ErrKindMismatch
	}
	return code == 1, nil
}
