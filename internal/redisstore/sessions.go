package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// What the scripts of session records answer besides script.Done.
const (
	sessionGone       = -1
	sessionSuperseded = -2
	sessionToken      = -6
)

// TakeSession implements lock.Store.
func (s *Store) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	if err := r.CheckSession(); err != nil {
		return fmt.Errorf("take the session %q: %w", r.ID, err)
	}
	return s.askSession(ctx, "take the session", r.ID, s.sessionCall(s.Scripts.TakeSession, r, ttl))
}

// StartKeepSession implements lock.Store.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	told := func(err error) {
		if err != nil {
			err = fmt.Errorf("keep the session %q: %w", k.ID, err)
		}
		done(err)
	}
	if err := k.CheckSession(); err != nil {
		go told(err)
		return
	}
	again := 0
	if k.Again {
		again = 1
	}
	s.Start(s.sessionCall(s.Scripts.KeepSession, k.SessionRecord, k.TTL, again),
		func(a script.Answer, err error) { told(cmp.Or(err, recorded(&a))) })
}

// EndSession implements lock.Store.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	call := s.Scripts.EndSession.With([]string{layout.Session(s.Prefix, id)}, strconv.FormatUint(epoch, 10),
		script.Millis(lock.EndedSession)).As(id)
	return s.askSession(ctx, "end the session", id, call)
}

// ForceEndSession implements lock.Store.
func (s *Store) ForceEndSession(ctx context.Context, id string) (was bool, err error) {
	call := s.Scripts.ForceSession.With([]string{layout.Session(s.Prefix, id)}, script.Millis(lock.ForcedEnd)).As(id)
	err = s.askSession(ctx, "end the session by force", id, call)
	if errors.Is(err, lock.ErrSessionGone) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) askSession(ctx context.Context, what, id string, call script.Call) error {
	_, err := answer(ctx, s, question{what, id, lock.Exclusive, call},
		func(a *script.Answer) (struct{}, error) { return struct{}{}, recorded(a) })
	return err
}

// sessionCall is a call with the arguments that script/session.lua names, followed by more.
func (s *Store) sessionCall(sc *script.Script, r lock.SessionRecord, ttl time.Duration, more ...any) script.Call {
	args := []any{strconv.FormatUint(r.Epoch, 10), r.Nonce, r.TokenHash, r.Client, r.Replica, script.Millis(ttl)}
	return sc.With([]string{layout.Session(s.Prefix, r.ID)}, append(args, more...)...).As(cmp.Or(r.Tenant, r.ID))
}

// recorded reads what a script of session records answered.
func recorded(a *script.Answer) error {
	switch a.Code() {
	case script.Done:
	case sessionGone:
		return lock.ErrSessionGone
	case sessionSuperseded:
		return lock.ErrSuperseded
	case sessionToken:
		return lock.ErrToken
	default:
		a.Bad(0)
	}
	return a.Err
}
