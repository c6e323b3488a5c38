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
	g, err := s.acquire(ctx, c)
	if err != nil {
		return broker.Grant{}, fmt.Errorf("acquire %q: %w", c.Name, err)
	}
	return g, nil
}

func (s *Store) acquire(ctx context.Context, c broker.Claim) (broker.Grant, error) {
	if err := begin(ctx, c.Kind); err != nil {
		return broker.Grant{}, err
	}
	n := s.prefix + c.Name
	a, err := s.ask(ctx, s.scripts.acquire, []string{n, tokenKey(n)},
		string(c.Owner), c.Count, millis(c.TTL), uint64(c.Fence), s.fenceMillis)
	if err != nil {
		return broker.Grant{}, err
	}
	switch a.code() {
	case answerDone:
		return broker.Grant{Fence: a.fence(1), TTL: ttlOf(a.int(2))}, a.err
	case answerHeld:
		held := &broker.HeldError{RetryAfter: ttlOf(a.int(1)), HeldBy: broker.Owner(a.text(2))}
		if a.err == nil {
			a.err = held
		}
	}
	return broker.Grant{}, a.refusal()
}

// Release implements broker.Store.
func (s *Store) Release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	res, err := s.release(ctx, r)
	if err != nil {
		return broker.Returned{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	return res, nil
}

func (s *Store) release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	if err := begin(ctx, r.Kind); err != nil {
		return broker.Returned{}, err
	}
	var next broker.Successor
	if r.Next != nil && r.Remaining == 0 {
		next = *r.Next
	}
	n := s.prefix + r.Name
	a, err := s.ask(ctx, s.scripts.release, []string{n, tokenKey(n), channelKey(n)},
		string(r.Owner), decimal(r.Fence), r.Remaining, string(next.Owner), millis(next.TTL), s.fenceMillis)
	if err != nil {
		return broker.Returned{}, err
	}
	switch a.code() {
	case answerDone:
		return broker.Returned{Listeners: int(a.int(1))}, a.err
	case answerHandOver:
		return broker.Returned{HandedOver: a.fence(1)}, a.err
	}
	return broker.Returned{}, a.refusal()
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
