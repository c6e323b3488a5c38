package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The store has a record of each session, so that it can go on at another replica. It is written when the session
// opens, and prolonged about when its leases are. Whoever ends the record may release what the session has; nobody
// else does so after its stream broke. docs/decisions has the reasons: "a session outlives its stream and its replica".

// recording is what is under way about the record of a session, whose mutex guards it.
type recording struct {
	keeping bool     // a call that prolongs it is under way
	written bool     // it was, once at least
	over    bool     // this replica ended it
	kept    bool     // this replica could not end it
	asking  bool     // whose the session is
	unsure  []func() // what is done if the session is still here
}

// newRecord is the record of an attempt to begin a session, or to go on with it.
func (r *Registry) newRecord(c Client, id, token string, epoch uint64) lock.SessionRecord {
	if c.Identity != "" { // nobody else can use it
		token += "\x00" + c.Identity
	}
	hash := sha256.Sum256([]byte(token)) // all that the store is told of it
	return lock.SessionRecord{
		ID: id, Epoch: epoch, Nonce: rand.Text(), TokenHash: hex.EncodeToString(hash[:]), Client: c.Name,
		Replica: r.cfg.Replica, Tenant: ":sessions " + string(c.Tenant),
	}
}

// recordTTL is how long a record is kept: it is prolonged three times in a session TTL, and must outlive the leases.
func recordTTL(sessionTTL time.Duration) time.Duration { return sessionTTL * 3 / 2 }

// mostWrites is how often a record that could not be written is written again before the client is heard once more.
const mostWrites = 8

// keepRecordLocked prolongs the record, or makes it. It is the n-th attempt in a row: without a record nobody can go on
// with the session, so a failed first write is repeated soon. A record that is there lasts until the next sign of life.
func (s *Session) keepRecordLocked(n int) {
	if s.keeping || s.ended || s.of.ctx.Err() != nil {
		return
	}
	s.keeping = true
	s.of.cfg.Begin()
	k := lock.SessionKeep{SessionRecord: s.record, TTL: recordTTL(s.TTL()), Again: true}
	s.of.store.StartKeepSession(k, func(err error) {
		defer s.of.cfg.End()
		s.verified(err)
		if errors.Is(err, lock.ErrSessionGone) { // it was ended: one that is only lost would have been made again
			s.of.goes(func() { s.end(ErrSessionExpired, true) })
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keeping, s.written = false, s.written || err == nil
		if !lock.Retriable(err) || s.written || n == mostWrites || s.ended {
			return
		}
		s.of.goes(func() {
			lock.Pause(s.of.ctx, lock.Backoff(n))
			s.mu.Lock()
			defer s.mu.Unlock()
			s.keepRecordLocked(n + 1)
		})
	})
}

// verified ends the session here if the store has said that it goes on elsewhere.
func (s *Session) verified(err error) {
	if errors.Is(err, lock.ErrSuperseded) {
		s.of.goes(func() { s.End(ErrSuperseded) })
	}
}

// IfStillHere calls run once the store has said, when asked after this moment, that the session went on nowhere else.
// It is for the release of a lease whose validity has ended: another replica that told the client of a later end would
// have told it before.
func (s *Session) IfStillHere(run func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = append(s.unsure, run)
	if !s.asking {
		s.asking = true
		s.of.goes(s.verify)
	}
}

// verify asks the store for all of unsure at once, until nothing is left. If the record is gone it asks again: the
// store may have lost it, and then it comes back.
func (s *Session) verify() {
	for n := 1; ; n++ {
		asked := s.takeUnsure()
		if len(asked) == 0 {
			return
		}
		told := make(chan error, 1)
		s.startVerify(func(err error) { told <- err })
		err := <-told
		s.verified(err)
		s.mu.Lock()
		gone := errors.Is(err, lock.ErrSessionGone)
		still := err == nil || gone && s.over
		again := !still && (gone || lock.Retriable(err)) && !s.leavesLeasesLocked() && s.of.ctx.Err() == nil
		if again {
			s.unsure = append(asked, s.unsure...)
		}
		s.mu.Unlock()
		switch {
		case again:
			lock.Pause(s.of.ctx, lock.Backoff(n))
		case still:
			for _, run := range asked {
				run()
			}
			n = 0
		}
	}
}

// takeUnsure takes all of unsure. If there is none, the asking ends.
func (s *Session) takeUnsure() (asked []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.unsure = s.unsure, nil
	s.asking = len(asked) > 0
	return asked
}

// startVerify asks the store whose the session is, and prolongs nothing.
func (s *Session) startVerify(done func(error)) {
	s.of.store.StartKeepSession(lock.SessionKeep{SessionRecord: s.record, TTL: time.Millisecond}, done)
}
