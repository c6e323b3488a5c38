package watching_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A permit of another program that is given back during an outage is told of once, when that is seen.
func TestAPermitOfAnotherProgramEndsDuringAnOutage(t *testing.T) {
	theirs := lock.SeenHold{ID: "permit x", TTL: time.Minute, Foreign: true, Permit: true}
	hears(t, 0, func(s *redissons) {
		s.change(theirs)
		time.Sleep(100 * time.Millisecond)
		s.tells(lock.NoticeDeaf)
		s.tells(lock.NoticeListening)
		s.change()
		time.Sleep(time.Second)
	}, lock.EndUnknown)
}

// Its message may be slower than a look.
func TestAHoldOfAnotherProgramIsEndedByForceAfterAnOutage(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(100 * time.Millisecond)
		s.tells(lock.NoticeDeaf)
		s.tells(lock.NoticeListening)
		s.change()
		time.Sleep(10 * time.Millisecond)
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndForced})
		time.Sleep(time.Second)
	}, lock.EndForced)
}

// The message of a release may be lost when the connection is, just before that is known.
func TestAReleaseAtTheBeginningOfAnOutageIsNotTakenForADeletedKey(t *testing.T) {
	ours := lock.SeenHold{ID: "exclusive a", TTL: time.Minute, Fence: 7}
	for what, pause := range map[string]time.Duration{
		"during a look": time.Millisecond, "after it": 20 * time.Millisecond,
	} {
		t.Run(what, func(t *testing.T) {
			hears(t, 2*time.Millisecond, func(s *redissons) {
				s.change(ours)
				time.Sleep(100 * time.Millisecond)
				s.change()
				time.Sleep(pause)
				s.tells(lock.NoticeDeaf)
				s.tells(lock.NoticeListening)
				time.Sleep(time.Second)
			}, lock.EndUnknown)
		})
	}
}

// A minority may tell of an end that was none, as a forced release that reached no more. When others that may have told
// are not heard any more, this is told as unsure; but the hold was seen after it.
func TestAHoldThatWasSeenAfterItsEndWasTold(t *testing.T) {
	ours := lock.SeenHold{ID: "exclusive a", TTL: time.Minute, Fence: 7}
	hears(t, 0, func(s *redissons) {
		s.change(ours)
		time.Sleep(100 * time.Millisecond)
		few := lock.Notice{What: lock.NoticeEnded, Cause: lock.EndForced, Fence: 7, Unsure: true, Came: time.Now()}
		time.Sleep(100 * time.Millisecond)
		s.change(ours)
		time.Sleep(100 * time.Millisecond)
		s.notify(few)
		time.Sleep(time.Second)
		few.Cause, few.Came = lock.EndReleased, time.Now()
		s.notify(few)
	}, lock.EndReleased)
}
