package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A session is of the attempt that a majority names. Two attempts that both had a majority have a member in common:
// there the greater epoch has the session, so the other attempt finds no majority any more.
//
// A member that may have lost its data may have forgotten the later attempt. So its yes does not count for an attempt
// that goes on, as it does not for new holds.

// unlessForgotten is err, or errForgot in place of nil if the member is quarantined.
func (s *Store) unlessForgotten(m *member, err error) error {
	if err == nil && s.quarantined(m) {
		return errForgot
	}
	return err
}

// errForgot: a member may have forgotten whose a session is.
var errForgot = fmt.Errorf("%w: the member may have lost its data", lock.ErrOutcomeUnknown)

// TakeSession implements lock.Store.
func (s *Store) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	return s.ask(ctx, "take the session", r.ID, lock.Exclusive, false, func(ctx context.Context, m *member) error {
		return m.TakeSession(ctx, r, s.drifted(ttl))
	})
}

// EndSession implements lock.Store. A member that is away may keep the record until it runs out, but no majority does.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	return s.ask(ctx, "end the session", id, lock.Exclusive, false, func(ctx context.Context, m *member) error {
		return s.unlessForgotten(m, m.EndSession(ctx, id, epoch))
	})
}

// ForceEndSession implements lock.Store. was is true if any member that answered had a record.
func (s *Store) ForceEndSession(ctx context.Context, id string) (was bool, err error) {
	return question[bool]{
		what: "end the session by force", name: id, kind: lock.Exclusive,
		ask: func(ctx context.Context, m *member) (bool, error) {
			had, err := m.ForceEndSession(ctx, id)
			return had, s.unlessForgotten(m, err)
		},
		verdict: func(b *ballot[bool], last bool) (was, over bool, err error) {
			_, over, err = oneWord(b, last)
			for _, v := range b.votes {
				was = was || v.yes() && v.v
			}
			return was, over, err
		},
	}.put(ctx, s)
}

// StartKeepSession implements lock.Store. With k.Again each member that lacks the record makes it again.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	k.TTL = s.drifted(k.TTL)
	b := open(s, oneWord[struct{}], func(_ struct{}, err error) { done(about("keep the session", k.ID, err)) })
	for _, m := range s.members {
		m.StartKeepSession(k, func(err error) {
			if !k.Again { // it must tell whose the session is
				err = s.unlessForgotten(m, err)
			}
			b.answer(m, struct{}{}, err)
		})
	}
}
