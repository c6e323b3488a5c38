package session

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
)

// renewPart is after how many tenths of a TTL a sign of life renews all auto leases again: a little less than the time
// between two heartbeats, so that each of these does, and what comes in between does not.
const renewPart = 3

// HeartbeatInterval is how often the client must be heard.
func (s *Session) HeartbeatInterval() time.Duration { return s.TTL() / limits.Heartbeats }

// AutoEnd is until when an auto lease is renewed: one session TTL after its client was last heard.
func (s *Session) AutoEnd() time.Time { return s.heardAt().Add(s.TTL()) }

// heardAt is when the client was last heard.
func (s *Session) heardAt() time.Time { return s.opened.Add(time.Duration(s.heard.Load())) }

// Hear notes a sign of life, of a session that has not ended. It also has the leases and the record renewed, if that
// was done long enough ago: what is renewed just after a sign of life lasts longest.
func (s *Session) Hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.hearLocked()
	}
}

func (s *Session) hearLocked() (now time.Time) {
	now = time.Now()
	s.heard.Store(int64(now.Sub(s.opened)))
	if !now.Before(s.renewAt) {
		s.renewAt = now.Add(s.TTL() * renewPart / 10)
		s.of.cfg.Heard(&s.note)
		s.keepRecordLocked(1)
	}
	return now
}

// Unread notes whether the session's requests are left unread because its answers are not read. Meanwhile it is not
// heard, so a client that does not go on reading within its TTL loses its session.
func (s *Session) Unread(unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = unread
}

// checkSilence ends the session if its client was silent for a TTL, or looks again when that may be. A client that is
// heard after that is not answered.
func (s *Session) checkSilence() {
	s.mu.Lock()
	left, cause, ends := time.Until(s.AutoEnd()), ErrSilent, false
	if s.unread {
		cause = ErrBacklog
	}
	switch {
	case left <= 0:
		ends = s.retireLocked(cause, s.opening.ReleaseOnEnd)
	case !s.ended:
		s.silence.Reset(left)
	}
	s.mu.Unlock()
	if ends {
		s.depart()
	}
}

// Heartbeat is a sign of life that is answered with the validity of the session's auto leases. Its id may be 0.
func (s *Session) Heartbeat(id, sentID uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.anchor, s.anchorAt = sentID, s.hearLocked()
	s.tellLocked(HeartbeatAck{ID: id, SentID: sentID, Until: s.soonestLocked()})
}
