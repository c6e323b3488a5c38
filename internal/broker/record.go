package broker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/session"
)

// The store has a record of each session, so that it can go on at another replica. It is written when the session opens, and
// prolonged about when its leases are. Whoever ends the record may give back what the session has; nobody else does so after its stream
// broke. docs/decisions has the reasons: "a session outlives its stream and its replica".

// record is what a session knows of its record.
type record struct {
	lock.SessionRecord
	token   string
	keeping atomic.Bool // a call that prolongs it is under way
}

// newToken is a secret that nobody guesses.
func newToken() string { return rand.Text() + rand.Text() }

// hashOf is what the store is told of a token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// newRecord is that of an attempt to begin a session, or to go on with it.
func (b *Broker) newRecord(id, token, client string, epoch uint64) lock.SessionRecord {
	return lock.SessionRecord{ID: id, Epoch: epoch, Nonce: rand.Text(), TokenHash: hashOf(token), Client: client, Replica: b.cfg.Replica}
}

// recordTTL is how long a record is kept: it is prolonged three times in a session TTL, and must outlive the leases.
func recordTTL(sessionTTL time.Duration) time.Duration { return sessionTTL * 3 / 2 }

// keepRecord prolongs the record, or makes it if that failed. It does not block.
func (s *Session) keepRecord() {
	if !s.record.keeping.CompareAndSwap(false, true) {
		return
	}
	s.b.beginTaking()
	k := lock.SessionKeep{SessionRecord: s.record.SessionRecord, TTL: recordTTL(s.TTL()), Again: true}
	s.b.store.StartKeepSession(k, func(err error) {
		defer s.b.endTaking()
		s.record.keeping.Store(false)
		if errors.Is(err, lock.ErrSuperseded) {
			s.b.goTaking(func() { s.End(session.ErrSuperseded) })
		}
	})
}

// endRecord ends the record, and says whether what the session has may be given back: nobody goes on with it. It tries until
// the leases have ended by themselves.
func (s *Session) endRecord() bool {
	end := time.Now().Add(s.TTL())
	for n := 1; ; n++ {
		err := s.b.store.EndSession(s.b.ctx, s.ID(), s.record.Epoch)
		switch {
		case err == nil:
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
