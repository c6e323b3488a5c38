package redisstore

import (
	"cmp"
	"context"
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
	err := script.Begin(ctx, lock.Exclusive)
	if err == nil {
		err = r.CheckSession()
	}
	if err == nil {
		err = recorded(s.Ask(ctx, s.sessionCall(s.Scripts.TakeSession, r, ttl)))
	}
	if err != nil {
		return fmt.Errorf("take the session %s: %w", r.ID, err)
	}
	return nil
}

// StartKeepSession implements lock.Store.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	told := func(err error) {
		if err != nil {
			err = fmt.Errorf("keep the session %s: %w", k.ID, err)
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
		func(a script.Answer, err error) { told(recorded(a, err)) })
}

// EndSession implements lock.Store.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	err := script.Begin(ctx, lock.Exclusive)
	if err == nil {
		keys := []string{layout.Session(s.Prefix, id)}
		err = recorded(s.Ask(ctx, s.Scripts.EndSession.With(keys, strconv.FormatUint(epoch, 10),
			script.Millis(lock.EndedSession)).As(id)))
	}
	if err != nil {
		return fmt.Errorf("end the session %s: %w", id, err)
	}
	return nil
}

// sessionCall has the arguments of script/session.lua, and more.
func (s *Store) sessionCall(sc *script.Script, r lock.SessionRecord, ttl time.Duration, more ...any) script.Call {
	args := []any{strconv.FormatUint(r.Epoch, 10), r.Nonce, r.TokenHash, r.Client, r.Replica, script.Millis(ttl)}
	return sc.With([]string{layout.Session(s.Prefix, r.ID)}, append(args, more...)...).As(cmp.Or(r.Tenant, r.ID))
}

// recorded reads what a script of session records answered.
func recorded(a script.Answer, err error) error {
	if err != nil {
		return err
	}
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
