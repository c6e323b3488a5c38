package broker

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Sessions are asked to move to another stream when the replica drains, and when their streams are old. A client opens
// the new stream first, and then leaves the old one. So all that it costs is a moment of the new replica. A replica has
// drained when no session has a stream here any more: a session without one is where its client is, or waits for it,
// and nothing can be done for it here.

// movesPerSecond is how many sessions are asked to move in a second, as all of them come to the other replicas. There
// may be so many that half of the time they have would not suffice: then it is that half.
const movesPerSecond = 500

// Drain accepts no more sessions and unary acquires, and asks all clients to move within the given time, one after the
// other. It does not wait for that. It returns how many will be asked. Who is still here at a second Drain is asked
// again.
func (b *Broker) Drain(within time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	b.draining = true
	b.idleLocked()
	b.askNoMoreLocked()
	sessions, enough := b.sessionsLocked(), b.asking
	sessions = slices.DeleteFunc(sessions, func(s *Session) bool { return !s.streaming })
	b.wg.Go(func() { b.askToMove(sessions, within, enough) })
	return len(sessions)
}

// askToMove asks sessions one after the other, until enough is closed. Each is told what is left to it, with a margin:
// moving takes a moment.
//
//	asked at   begin + i * min(1/movesPerSecond, within/2/n)
//	told       3/4 * within - what has passed until then
func (b *Broker) askToMove(sessions []*Session, within time.Duration, enough <-chan struct{}) {
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
		case <-b.ctx.Done():
			return
		}
		s.Tell(session.Draining{Within: within/4*3 - at})
	}
}

// askNoMoreLocked ends the asking that goes on, if any does.
func (b *Broker) askNoMoreLocked() {
	close(b.asking)
	b.asking = make(chan struct{})
}

// Undrain accepts sessions and unary acquires again, and says whether that was refused before. Clients that were asked
// to move may still do so; no others are asked.
func (b *Broker) Undrain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.draining || b.closing.Load() {
		return false
	}
	b.askNoMoreLocked()
	b.draining, b.idle = false, make(chan struct{})
	return true
}

// Idle is closed when the broker is draining and no session has a stream. To be called after Drain.
func (b *Broker) Idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}

func (b *Broker) idleLocked() {
	if !b.draining || b.streams > 0 {
		return
	}
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
}

// streamingLocked notes a session that has come, with its stream.
func (b *Broker) streamingLocked(s *Session) {
	b.streams++
	s.streaming = true
	if b.cfg.Session.MaxStreamAge > 0 {
		s.aging = time.AfterFunc(b.ageOfStream(), func() { b.aged(s) })
	}
}

// ageOfStream is how old a stream becomes: up to a quarter less than it may. Clients that all came at once do not move
// at once for ever.
func (b *Broker) ageOfStream() time.Duration {
	most := b.cfg.Session.MaxStreamAge
	return most - rand.N(most/4+1)
}

// aged asks a session with an old stream to move. If it does not it is asked again.
func (b *Broker) aged(s *Session) {
	b.mu.Lock()
	streaming := s.streaming
	if streaming {
		s.aging.Reset(b.ageOfStream())
	}
	b.mu.Unlock()
	if streaming {
		s.Tell(session.Draining{Within: b.cfg.Session.MaxStreamAge / 10})
	}
}

// leaveIfElsewhere ends a session that has lost its stream, if the store says that it went on elsewhere: a client that
// moves goes on there first. Only then the stream counts as left, so that a replica that drains does not take what
// moved for lost. It does not block.
func (s *Session) leaveIfElsewhere() {
	s.b.beginTaking()
	s.askWhose(func(err error) {
		s.b.goTaking(func() {
			if errors.Is(err, lock.ErrSuperseded) {
				s.End(session.ErrSuperseded)
			}
			s.b.mu.Lock()
			defer s.b.mu.Unlock()
			s.b.unstreamedLocked(s)
		})
		s.b.endTaking()
	})
}

// unstreamedLocked takes its stream from a session.
func (b *Broker) unstreamedLocked(s *Session) {
	if !s.streaming {
		return
	}
	b.streams--
	s.streaming = false
	if s.aging != nil {
		s.aging.Stop()
	}
	b.idleLocked()
}
