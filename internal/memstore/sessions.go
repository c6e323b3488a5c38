package memstore

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// record is the record of a session.
type record struct {
	lock.SessionRecord
	until time.Time
	ended bool // and kept for commands that come late
	force bool // ended by force
}

// recordOf is the name of a session's record. It is reserved, so no lock has it.
func recordOf(session string) string { return "lockd:session:" + session }

// TakeSession implements lock.Store.
func (s *Store) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	_, err := do(ctx, s, "take the session", r.ID, lock.Exclusive, func(w *work) (any, error) {
		if err := r.CheckSession(); err != nil {
			return nil, err
		}
		switch had := w.find(recordOf(r.ID)).record; {
		case had == nil && r.Epoch > 1, had != nil && had.ended:
			return nil, lock.ErrSessionGone
		case had != nil && had.TokenHash != r.TokenHash:
			return nil, lock.ErrToken
		case had != nil && r.SupersededBy(had.SessionRecord):
			return nil, lock.ErrSuperseded
		}
		w.keep(r, ttl)
		return nil, nil
	})
	return err
}

// StartKeepSession implements lock.Store.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		_, err := do(context.Background(), s, "keep the session", k.ID, lock.Exclusive, func(w *work) (any, error) {
			if err := k.CheckSession(); err != nil {
				return nil, err
			}
			had := w.find(recordOf(k.ID)).record
			there := had != nil && !had.ended
			switch {
			case !there && (!k.Again || had != nil && (had.force || had.Epoch >= k.Epoch)):
				return nil, lock.ErrSessionGone
			case there && k.SupersededBy(had.SessionRecord):
				return nil, lock.ErrSuperseded
			}
			w.keep(k.SessionRecord, k.TTL)
			return nil, nil
		})
		done(err)
	}()
}

// keep makes r the record of its session, for ttl from now at least.
func (w *work) keep(r lock.SessionRecord, ttl time.Duration) {
	e := w.find(recordOf(r.ID))
	next := record{SessionRecord: r}
	if e.record != nil {
		next.until = e.record.until
	}
	later(&next.until, w.now, ttl)
	e.record = &next
}

// EndSession implements lock.Store.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	_, err := do(ctx, s, "end the session", id, lock.Exclusive, func(w *work) (any, error) {
		e := w.find(recordOf(id))
		if e.record != nil && e.record.Epoch > epoch {
			return nil, lock.ErrSuperseded
		}
		ended := &record{SessionRecord: lock.SessionRecord{ID: id, Epoch: epoch}, ended: true}
		if ended.force = e.record != nil && e.record.force; ended.force {
			ended.until = e.record.until
		}
		later(&ended.until, w.now, lock.EndedSession)
		e.record = ended
		return nil, nil
	})
	return err
}

// ForceEndSession implements lock.Store.
func (s *Store) ForceEndSession(ctx context.Context, id string) (was bool, err error) {
	return do(ctx, s, "end the session by force", id, lock.Exclusive, func(w *work) (bool, error) {
		e := w.find(recordOf(id))
		ended := &record{SessionRecord: lock.SessionRecord{ID: id}, ended: true, force: true}
		if had := e.record; had != nil {
			ended.Epoch, ended.until, was = had.Epoch, had.until, !had.ended
		}
		later(&ended.until, w.now, lock.ForcedEnd)
		e.record = ended
		return was, nil
	})
}
