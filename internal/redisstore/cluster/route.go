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

// Pauses before a call is repeated that no node took, because keys of the name are on their way, or because the cluster
// has no master for it.
const (
	movingPause = 10 * time.Millisecond
	downPause   = 100 * time.Millisecond
)

// slotOf is the slot of a name. Names whose keys are in different slots cannot be used in a cluster.
func (s *Store) slotOf(name string) (int, error) {
	n := s.cfg.Node.Prefix + name
	if !layout.InOneSlot(n) {
		return 0, &lock.InvalidError{
			Field: "name", Reason: lock.ReasonName, Detail: "in a Redis Cluster braces must be a pair and enclose something",
		}
	}
	return layout.Slot(n), nil
}

// where is the node that has the slot of a name.
func (s *Store) where(name string) (*redisstore.Store, error) {
	slot, err := s.slotOf(name)
	if err != nil {
		return nil, err
	}
	return s.owner(slot)
}

// owner is the node that has a slot.
func (s *Store) owner(slot int) (*redisstore.Store, error) {
	n := s.slots[slot].Load()
	if n == nil {
		s.lookSoon()
		return nil, errNoNode
	}
	return n.Store, nil
}

// turn is where a call goes next, and after which pause.
type turn struct {
	to    *redisstore.Store
	pause time.Duration
}

const (
	// freely is how often a call goes elsewhere without a pause. More often it does when nodes send it to each other
	// and back.
	freely = 5
	// mostDoublings bounds how long the pause becomes: 16 times the first one.
	mostDoublings = 4
)

// after is the turn of a call that was sent elsewhere so often before. The pauses double: very many calls may wait for
// one slot.
func (t turn) after(moves int) turn {
	if moves >= freely {
		t.pause = max(t.pause, movingPause<<min(moves-freely, mostDoublings))
	}
	return t
}

// redirect says where the call for a name goes that ended with an error. again is false if that is its outcome. Nothing
// was done by a node that sends a call elsewhere.
func (s *Store) redirect(name string, err error) (next turn, again bool) {
	if err == nil {
		return turn{}, false
	}
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		if lock.Retriable(err) {
			s.lookSoon() // a fail-over may be the cause
		}
		return turn{}, false
	}
	slot, bad := s.slotOf(name)
	if bad != nil {
		return turn{}, false
	}
	next, kind, bad := s.follow(slot, reply)
	if kind == "" {
		return turn{}, false
	}
	s.metrics.Redirections.WithLabelValues(kind).Inc()
	return next, bad == nil
}

// follow reads what a node answered for a slot. kind is empty if it took the call.
func (s *Store) follow(slot int, reply redis.Error) (next turn, kind string, err error) {
	if addr, ok := redis.IsMovedError(reply); ok {
		n, err := s.moved(slot, addr)
		if err != nil {
			return turn{}, "moved", err
		}
		return turn{to: n.Store}, "moved", nil
	}
	if addr, ok := redis.IsAskError(reply); ok {
		s.mu.Lock()
		var n *node
		if n, err = nil, errClosed; !s.closed {
			n, err = s.nodeLocked(addr)
		}
		s.mu.Unlock()
		if err != nil {
			return turn{}, "ask", err
		}
		to, err := n.forAsked()
		return turn{to: to}, "ask", err
	}
	switch {
	case redis.IsTryAgainError(reply):
		next, kind = turn{pause: movingPause + rand.N(movingPause)}, "tryagain" // not all at once again
	case redis.IsClusterDownError(reply):
		s.lookSoon()
		next, kind = turn{pause: downPause}, "clusterdown"
	default:
		return turn{}, "", nil
	}
	next.to, err = s.owner(slot)
	return next, kind, err
}

// ask makes a call for a name where its slot is, elsewhere if the node says so, until there is an outcome or no time
// left.
func ask[T any](ctx context.Context, s *Store, name string,
	call func(context.Context, *redisstore.Store) (T, error),
) (T, error) {
	var none T
	at, err := s.where(name)
	if err != nil {
		return none, err
	}
	end := time.Now().Add(s.within)
	for moves := 0; ; moves++ {
		v, err := call(ctx, at)
		next, again := s.redirect(name, err)
		next = next.after(moves)
		if !again || time.Now().Add(next.pause).After(end) || ctx.Err() != nil {
			return v, err
		}
		time.Sleep(next.pause)
		at = next.to
	}
}

// do is ask for calls that answer nothing.
func do(ctx context.Context, s *Store, name string, call func(context.Context, *redisstore.Store) error) error {
	_, err := ask(ctx, s, name, func(ctx context.Context, at *redisstore.Store) (struct{}, error) {
		return struct{}{}, call(ctx, at)
	})
	return err
}

// begin is ask without waiting: done is told the outcome, by a goroutine that it must not block, and never before begin
// returns.
func begin[T any](s *Store, name string, call func(*redisstore.Store, func(T, error)), done func(T, error)) {
	at, err := s.where(name)
	if err != nil {
		go func() {
			var none T
			done(none, err)
		}()
		return
	}
	end := time.Now().Add(s.within)
	moves := 0 // of calls that follow each other
	var told func(T, error)
	told = func(v T, err error) {
		next, again := s.redirect(name, err)
		next = next.after(moves)
		moves++
		switch {
		case !again || time.Now().Add(next.pause).After(end):
			done(v, err)
		case next.pause > 0:
			time.AfterFunc(next.pause, func() { call(next.to, told) })
		default:
			call(next.to, told)
		}
	}
	call(at, told)
}
