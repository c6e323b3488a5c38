package broker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/session"
)

// The store has a record of each session, so that it can go on at another replica. It is written when the session
// opens, and prolonged about when its leases are. Whoever ends the record may give back what the session has; nobody
// else does so after its stream broke. docs/decisions has the reasons: "a session outlives its stream and its replica".

// record is what a session knows of its record.
type record struct {
	lock.SessionRecord
	token   string
	keeping atomic.Bool // a call that prolongs it is under way
	written atomic.Bool // it was, once at least

	mu     sync.Mutex // guards the fields below
	unsure []unsure
	asking bool // whose the session is
	failed int  // in a row
	over   bool // this replica ended the record
}

// unsure is what is done if the session is still here, and until when that is of interest.
type unsure struct {
	run func()
	end time.Time
}

// newRecord is that of an attempt to begin a session, or to go on with it.
func (b *Broker) newRecord(c session.Client, id, token string, epoch uint64) lock.SessionRecord {
	hash := sha256.Sum256([]byte(token)) // all that the store is told of it
	return lock.SessionRecord{
		ID: id, Epoch: epoch, Nonce: rand.Text(), TokenHash: hex.EncodeToString(hash[:]), Client: c.Name,
		Replica: b.cfg.Replica, Tenant: ":sessions " + string(c.Tenant),
	}
}

// recordTTL is how long a record is kept: it is prolonged three times in a session TTL, and must outlive the leases.
func recordTTL(sessionTTL time.Duration) time.Duration { return sessionTTL * 3 / 2 }

// mostWrites is how often a record that could not be written is written again before the client is heard once more.
const mostWrites = 8

// keepRecord prolongs the record, or makes it if that failed. It does not block.
func (s *Session) keepRecord() { s.writeRecord(1) }

// writeRecord is the n-th attempt in a row. Without a record nobody can go on with the session, so it is written again
// soon. One that is there lasts until the next sign of life.
func (s *Session) writeRecord(n int) {
	if !s.record.keeping.CompareAndSwap(false, true) {
		return
	}
	s.b.beginTaking()
	k := lock.SessionKeep{SessionRecord: s.record.SessionRecord, TTL: recordTTL(s.TTL()), Again: true}
	s.b.store.StartKeepSession(k, func(err error) {
		s.record.keeping.Store(false)
		defer s.b.endTaking()
		s.heardWhose(err)
		if err == nil {
			s.record.written.Store(true)
		}
		if !lock.Retriable(err) || s.record.written.Load() || n == mostWrites {
			return
		}
		s.b.wg.Go(func() {
			s.b.pause(arbiter.Backoff(n))
			if s.Cause() == nil && s.b.ctx.Err() == nil {
				s.writeRecord(n + 1)
			}
		})
	})
}

// heardWhose leaves a session that goes on elsewhere.
func (s *Session) heardWhose(err error) {
	if errors.Is(err, lock.ErrSuperseded) {
		s.b.goTaking(func() { s.End(session.ErrSuperseded) })
	}
}

// ifStillHere does something once the store has said, when asked after this moment, that the session went on nowhere
// else. If it does not say so until end, nothing is done. With that a lease is given back whose validity has ended:
// what another replica told the client of it would have been told before.
func (s *Session) ifStillHere(end time.Time, run func()) {
	r := &s.record
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsure = append(r.unsure, unsure{run, end})
	if !r.asking {
		r.asking = true
		s.b.beginTaking()
		s.askWhoseLocked()
	}
}

// askWhoseLocked asks for all that came until now. The call prolongs nothing. Guarded by the mutex of the record.
func (s *Session) askWhoseLocked() {
	asked := s.record.unsure
	s.record.unsure = nil
	s.askWhose(func(err error) {
		s.heardWhose(err)
		if errors.Is(err, lock.ErrSessionGone) && s.endedRecord() {
			err = nil
		}
		if err == nil {
			for _, u := range asked {
				u.run()
			}
		}
		if !errors.Is(err, lock.ErrSessionGone) && !lock.Retriable(err) || s.LeavesLeases() || s.b.ctx.Err() != nil {
			asked = nil
		}
		s.askAgain(asked)
	})
}

// askWhose asks the store whose the session is, and prolongs nothing.
func (s *Session) askWhose(done func(error)) {
	s.b.store.StartKeepSession(lock.SessionKeep{SessionRecord: s.record.SessionRecord, TTL: time.Millisecond}, done)
}

// askAgain asks for what came meanwhile, and for what is left of that before, because the store did not say it. A
// record that is gone may come back: the store lost it.
func (s *Session) askAgain(left []unsure) {
	r := &s.record
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	left = slices.DeleteFunc(left, func(u unsure) bool { return now.After(u.end) })
	r.unsure = append(left, r.unsure...)
	switch {
	case len(r.unsure) == 0:
		r.asking, r.failed = false, 0
		s.b.endTaking()
	case len(left) == 0:
		r.failed = 0
		s.askWhoseLocked()
	default:
		r.failed++
		pause := arbiter.Backoff(r.failed)
		s.b.wg.Go(func() {
			s.b.pause(pause)
			r.mu.Lock()
			defer r.mu.Unlock()
			s.askWhoseLocked()
		})
	}
}

// endedRecord says whether this replica ended the record.
func (s *Session) endedRecord() bool {
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	return s.record.over
}

// endRecord ends the record, and says whether what the session has may be given back: nobody goes on with it, also if
// the record is being written now. It tries until the leases have ended by themselves.
func (s *Session) endRecord() bool {
	end := time.Now().Add(s.TTL())
	for n := 1; ; n++ {
		err := s.b.store.EndSession(s.b.ctx, s.ID(), s.record.Epoch)
		switch {
		case err == nil:
			s.record.mu.Lock()
			s.record.over = true
			s.record.mu.Unlock()
			return true
		case errors.Is(err, lock.ErrSuperseded):
			s.b.log.Debug("the session went on elsewhere", zap.String(observe.KeySession, s.ID()))
			return false
		case s.b.ctx.Err() != nil || time.Now().After(end):
			return false
		}
		s.b.pause(arbiter.Backoff(n))
	}
}
