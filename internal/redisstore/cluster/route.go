package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

var (
	errNoNode = fmt.Errorf("%w: it is not known which node has the slot", lock.ErrUnavailable)
	errClosed = fmt.Errorf("%w: the store was closed", lock.ErrUnavailable)
)

const (
	// movingPause is the first pause before a call is repeated that no node took, because the name's keys are moving, or
	// because its slot has no master. The pauses double, because very many calls may wait for one slot.
	movingPause = 10 * time.Millisecond
	// mostDoublings bounds how long the pause becomes: 16 times the first one.
	mostDoublings = 4
	// freely is how often a redirected call goes on without a pause. More redirections mean that nodes send it to and fro.
	freely = 5
)

// Why a node did nothing, as in the metric of redirections.
const (
	kindMoved    = "moved"
	kindAsk      = "ask"
	kindTryAgain = "tryagain"
	kindDown     = "clusterdown"
)

// slotOf is the slot of a name. Names whose keys are in different slots cannot be used in a cluster.
func (s *Store) slotOf(name string) (int, error) {
	n := s.cfg.Node.Prefix + name
	if !layout.InOneSlot(n) {
		return 0, lock.Invalid("name", lock.ReasonName, "in a Redis Cluster braces must be a pair and enclose something")
	}
	return layout.Slot(n), nil
}

// owner is the node that has a slot.
func (s *Store) owner(slot int) (*redisstore.Store, error) {
	n := s.slots[slot].Load()
	if n == nil {
		s.refreshSoon()
		return nil, errNoNode
	}
	return n.Store, nil
}

// redirect says where a call for a slot goes that ended with err after this number of moves, and after which pause.
// again is false if err is its outcome, because a node took the call or its time is up. A node that redirects a call
// did nothing.
func (s *Store) redirect(slot int, err error, moves int, end time.Time) (
	to *redisstore.Store, pause time.Duration, again bool,
) {
	if err == nil {
		return nil, 0, false
	}
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		if lock.Retriable(err) {
			s.refreshSoon() // a fail-over may be the cause
		}
		return nil, 0, false
	}
	to, kind, bad := s.follow(slot, reply)
	if kind == "" {
		return nil, 0, false
	}
	s.metrics.Redirections.WithLabelValues(kind).Inc()
	if kind == kindMoved || kind == kindAsk {
		moves -= freely
	}
	if moves >= 0 {
		pause = movingPause << min(moves, mostDoublings)
		pause += rand.N(pause) // not all at once again
	}
	return to, pause, bad == nil && !time.Now().Add(pause).After(end)
}

// follow reads what a node answered for a slot. kind is empty if it took the call.
func (s *Store) follow(slot int, reply redis.Error) (to *redisstore.Store, kind string, err error) {
	if addr, ok := redis.IsMovedError(reply); ok {
		to, err = s.moved(slot, addr)
		return to, kindMoved, err
	}
	if addr, ok := redis.IsAskError(reply); ok {
		s.mu.Lock()
		n, err := s.nodeLocked(addr)
		linger := s.linger
		s.mu.Unlock()
		if err == nil {
			to, err = n.forAsked(linger)
		}
		return to, kindAsk, err
	}
	switch {
	case redis.IsTryAgainError(reply):
		kind = kindTryAgain
	case redis.IsClusterDownError(reply):
		s.refreshSoon()
		kind = kindDown
	default:
		return nil, "", nil
	}
	to, err = s.owner(slot)
	return to, kind, err
}

// ask makes a call at the node that has a name's slot, and follows redirections until there is an outcome or no time is
// left.
func ask[T any](ctx context.Context, s *Store, name string, call func(*redisstore.Store) (T, error)) (T, error) {
	slot, err := s.slotOf(name)
	if err != nil {
		return *new(T), err
	}
	return askSlot(ctx, s, slot, call)
}

// askSlot is ask for a slot that is not that of a lock.
func askSlot[T any](ctx context.Context, s *Store, slot int, call func(*redisstore.Store) (T, error)) (T, error) {
	return lock.Await(ctx, func(slot int, done func(T, error)) {
		beginSlot(ctx, s, slot, func(at *redisstore.Store, told func(T, error)) { told(call(at)) }, done)
	}, slot)
}

// do is ask for calls that answer nothing.
func do(ctx context.Context, s *Store, name string, call func(*redisstore.Store) error) error {
	_, err := ask(ctx, s, name, func(at *redisstore.Store) (struct{}, error) { return struct{}{}, call(at) })
	return err
}

// begin is ask without waiting: done is told the outcome, by a goroutine that it must not block, and never before begin
// returns.
func begin[T any](s *Store, name string, call func(*redisstore.Store, func(T, error)), done func(T, error)) {
	slot, err := s.slotOf(name)
	if err != nil {
		go done(*new(T), err)
		return
	}
	beginSlot(context.Background(), s, slot, call, done)
}

// beginSlot is begin for a slot that is not that of a lock.
func beginSlot[T any](
	ctx context.Context, s *Store, slot int, call func(*redisstore.Store, func(T, error)), done func(T, error),
) {
	at, err := s.owner(slot)
	if err != nil {
		go done(*new(T), err)
		return
	}
	end := time.Now().Add(s.within)
	moves := 0 // of calls that follow each other
	var told func(T, error)
	told = func(v T, err error) {
		next, pause, again := s.redirect(slot, err, moves, end)
		moves++
		switch {
		case !again || ctx.Err() != nil:
			done(v, err)
		case pause > 0:
			time.AfterFunc(pause, func() { call(next, told) })
		default:
			call(next, told)
		}
	}
	call(at, told)
}
