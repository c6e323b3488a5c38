package session

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Sessions are asked to move to another stream when the replica drains, and when their streams are old. A client opens
// the new stream first, and then leaves the old one. So a move costs no more than a moment of the new replica. A
// replica has drained when no session has a stream here any more: the client of a session without one is elsewhere, or
// gone, and cannot be asked.

// movesPerSecond is how many sessions are asked to move in a second, because all of them come to the other replicas. If
// there are too many to be asked in half of the given time, the askings are spread over that half.
const movesPerSecond = 500

// Drain accepts no more sessions and unary acquires, and asks all clients to move within the given time, one after the
// other. It does not wait for that. It returns how many will be asked. A second Drain asks the rest again.
func (r *Registry) Drain(within time.Duration) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	r.draining = true
	r.idleLocked()
	r.askNoMoreLocked()
	sessions, enough := r.pageLocked("", r.open.Len()), r.asking
	sessions = slices.DeleteFunc(sessions, func(s *Session) bool { return !s.streaming })
	r.goes(func() { r.askToMove(sessions, within, enough) })
	return len(sessions)
}

// askToMove asks sessions one after the other, until enough is closed. Each is told what is left to it, with a margin:
// moving takes a moment.
//
//	asked at   begin + i * min(1/movesPerSecond, within/2/n)
//	told       3/4 * within - what has passed until then
func (r *Registry) askToMove(sessions []*Session, within time.Duration, enough <-chan struct{}) {
	step := time.Second / movesPerSecond
	if n := len(sessions); n > 0 {
		step = min(step, within/2/time.Duration(n))
	}
	begun := time.Now()
	for i, s := range sessions {
		at := step * time.Duration(i)
		select {
		case <-time.After(time.Until(begun.Add(at))):
		case <-enough:
			return
		case <-r.ctx.Done():
			return
		}
		s.Tell(Draining{Within: within/4*3 - at})
	}
}

// askNoMoreLocked ends an askToMove that is under way.
func (r *Registry) askNoMoreLocked() {
	close(r.asking)
	r.asking = make(chan struct{})
}

// Undrain accepts sessions and unary acquires again, and says whether that was refused before. Clients that were asked
// to move may still do so; no others are asked.
func (r *Registry) Undrain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining || r.closed {
		return false
	}
	r.askNoMoreLocked()
	r.draining, r.idle = false, make(chan struct{})
	return true
}

// Streams is how many sessions still have a stream, while the replica drains; else 0.
func (r *Registry) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		return 0
	}
	return r.streams
}

// Idle is closed when the replica is draining and no session has a stream. To be called after Drain.
func (r *Registry) Idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle
}

func (r *Registry) idleLocked() {
	if !r.draining || r.streams > 0 {
		return
	}
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// streamingLocked notes a session that has come, with its stream.
func (r *Registry) streamingLocked(s *Session) {
	r.streams++
	s.streaming = true
	if r.cfg.MaxStreamAge > 0 {
		s.aging = time.AfterFunc(r.ageOfStream(), func() { r.aged(s) })
	}
	r.expireLocked(s)
}

// ageOfStream is how old a stream becomes: up to a quarter less than MaxStreamAge, so that clients that came at the
// same moment do not always move at the same moment.
func (r *Registry) ageOfStream() time.Duration {
	most := r.cfg.MaxStreamAge
	return most - rand.N(most/4+1)
}

// aged asks a session with an old stream to move. If it does not it is asked again.
func (r *Registry) aged(s *Session) {
	r.mu.Lock()
	streaming := s.streaming
	if streaming {
		s.aging.Reset(r.ageOfStream())
	}
	r.mu.Unlock()
	if streaming {
		s.Tell(Draining{Within: r.cfg.MaxStreamAge / 10})
	}
}

// leaveIfElsewhere ends a session that has lost its stream, if the store says that it went on elsewhere: a client that
// moves goes on there first. The stream counts until the store has answered, so that a replica that drains does not
// take a session that moved for lost. It does not block.
func (s *Session) leaveIfElsewhere() {
	s.of.cfg.Begin()
	s.startVerify(func(err error) {
		defer s.of.cfg.End()
		s.of.goes(func() {
			if errors.Is(err, lock.ErrSuperseded) {
				s.End(ErrSuperseded)
			}
			s.of.mu.Lock()
			defer s.of.mu.Unlock()
			s.of.unstreamedLocked(s)
		})
	})
}

// unstreamedLocked notes that a session has no stream any more.
func (r *Registry) unstreamedLocked(s *Session) {
	if !s.streaming {
		return
	}
	r.streams--
	s.streaming = false
	for _, timer := range []*time.Timer{s.aging, s.expiring} {
		if timer != nil {
			timer.Stop()
		}
	}
	r.idleLocked()
}
