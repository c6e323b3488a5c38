package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// record is that of a session, and when it ends.
type record struct {
	lock.SessionRecord
	until time.Time
	ended bool // and kept for commands that come late
}

// swept is how many records an operation looks at that adds one. So those that ran out are fewer than the others.
const swept = 2

// TakeSession implements lock.Store.
func (s *Store) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	err := begin(ctx, lock.Exclusive)
	if err == nil {
		err = r.CheckSession()
	}
	if err == nil {
		err = s.takeSession(r, ttl)
	}
	if err != nil {
		return fmt.Errorf("take the session %s: %w", r.ID, err)
	}
	return nil
}

func (s *Store) takeSession(r lock.SessionRecord, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweepRecordsLocked(now)
	had, there := s.recordLocked(r.ID, now)
	switch {
	case there && had.ended, !there && r.Epoch > 1:
		return lock.ErrSessionGone
	case there && had.TokenHash != r.TokenHash:
		return lock.ErrToken
	case there && r.SupersededBy(had.SessionRecord):
		return lock.ErrSuperseded
	}
	s.records[r.ID] = record{SessionRecord: r, until: laterOf(had.until, now.Add(ttl))}
	return nil
}

// StartKeepSession implements lock.Store.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		err := k.CheckSession()
		if err == nil {
			err = s.keepSession(k)
		}
		if err != nil {
			err = fmt.Errorf("keep the session %s: %w", k.ID, err)
		}
		done(err)
	}()
}

func (s *Store) keepSession(k lock.SessionKeep) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	had, there := s.recordLocked(k.ID, now)
	switch {
	case there && had.ended && had.Epoch >= k.Epoch:
		return lock.ErrSessionGone
	case (!there || had.ended) && !k.Again:
		return lock.ErrSessionGone
	case there && !had.ended && k.SupersededBy(had.SessionRecord):
		return lock.ErrSuperseded
	}
	s.records[k.ID] = record{SessionRecord: k.SessionRecord, until: laterOf(had.until, now.Add(k.TTL))}
	return nil
}

// EndSession implements lock.Store.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	err := begin(ctx, lock.Exclusive)
	if err == nil {
		err = s.endSession(id, epoch)
	}
	if err != nil {
		return fmt.Errorf("end the session %s: %w", id, err)
	}
	return nil
}

func (s *Store) endSession(id string, epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if had, there := s.recordLocked(id, now); there && had.Epoch > epoch {
		return lock.ErrSuperseded
	}
	s.sweepRecordsLocked(now)
	s.records[id] = record{
		SessionRecord: lock.SessionRecord{ID: id, Epoch: epoch}, until: now.Add(lock.EndedSession),
		ended: true,
	}
	return nil
}

// recordLocked is the record of a session that has not run out.
func (s *Store) recordLocked(id string, now time.Time) (r record, there bool) {
	r, there = s.records[id]
	if !there || !now.Before(r.until) {
		return record{}, false
	}
	return r, true
}

// sweepRecordsLocked forgets some records that ran out. A walk over a map begins anywhere.
func (s *Store) sweepRecordsLocked(now time.Time) {
	looked := 0
	for id, r := range s.records {
		if !now.Before(r.until) {
			delete(s.records, id)
		}
		if looked++; looked == swept {
			return
		}
	}
}
