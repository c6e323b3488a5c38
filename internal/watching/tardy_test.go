package watching_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// redissons is a store in which a program holds a name whose messages say only that something was released.
type redissons struct {
	look time.Duration // for how long one takes after it has seen

	mu     sync.Mutex // guards the fields below
	holds  []lock.SeenHold
	notify func(lock.Notice)
}

func (s *redissons) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = notify
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (s *redissons) See(context.Context, string) (lock.Sight, error) {
	s.mu.Lock()
	seen := lock.Sight{Tracked: true, Holds: s.holds}
	s.mu.Unlock()
	time.Sleep(s.look)
	return seen, nil
}

// change has another program take the name, or give it back.
func (s *redissons) change(holds ...lock.SeenHold) {
	s.mu.Lock()
	s.holds = holds
	notify := s.notify
	s.mu.Unlock()
	notify(lock.Notice{What: lock.NoticeChanged})
}

// message is that of a release. It came at a time, and is known now.
func (s *redissons) message(came time.Time) {
	s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Came: came})
}

func theirs(ids ...string) (all []lock.SeenHold) {
	for _, id := range ids {
		all = append(all, lock.SeenHold{ID: id, TTL: time.Minute, Foreign: true})
	}
	return all
}

// hears has something happen to a name, and compares what who watches it is told.
func hears(t *testing.T, look time.Duration, do func(s *redissons), want ...lock.EndCause) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		store := &redissons{look: look}
		hub := watching.New(store)
		defer hub.Close()
		w := &watcher{}
		hub.Watch("n", w, 1)
		time.Sleep(10 * time.Millisecond)
		do(store)
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []lock.EndCause
		for _, e := range w.all {
			got = append(got, e.cause)
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}

// The message of a release may be understood before it is seen or long after. Either way it is one end, and the next
// hold has its own.
func TestReleasesOfOtherProgramsAreToldOnceHoweverLateTheirMessagesAre(t *testing.T) {
	const ends = 20
	all := slices.Repeat([]lock.EndCause{lock.EndReleased}, ends)
	for _, ms := range []int{0, 10, 29, 31, 100, 900} {
		late := time.Duration(ms) * time.Millisecond
		t.Run(late.String(), func(t *testing.T) {
			hears(t, 0, func(s *redissons) {
				for i := range ends {
					s.change(theirs("exclusive a")...)
					time.Sleep(50 * time.Millisecond)
					came := time.Now()
					time.AfterFunc(late, func() { s.message(came) })
					s.change()
					time.Sleep(50 * time.Millisecond)
					if i%5 == 4 {
						time.Sleep(2 * time.Second)
					}
				}
			}, all...)
		})
	}
}

func TestAMessageThatWasLateOnItsWayIsKnownAgain(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(time.Second)
		s.change()
		time.Sleep(70 * time.Millisecond)
		s.message(time.Now())
	}, lock.EndReleased)
}

// Messages may be lost, or a key be deleted. Then the next release has its own message, also if nobody saw the hold.
func TestAMessageThatNeverComesIsNotWaitedForLong(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(100 * time.Millisecond)
		s.change()
		time.Sleep(100 * time.Millisecond)
		s.message(time.Now())
	}, lock.EndReleased, lock.EndReleased)
}

// Redisson says nothing when a reader leaves and others stay.
func TestAReaderOfAnotherProgramLeavesWithoutAWord(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("read a", "read b")...)
		time.Sleep(100 * time.Millisecond)
		s.change(theirs("read b")...)
		time.Sleep(40 * time.Millisecond)
		s.change()
		s.message(time.Now())
		time.Sleep(5 * time.Millisecond)
		s.message(time.Now()) // a hold too short to be seen
	}, lock.EndReleased, lock.EndReleased, lock.EndReleased)
}

func TestAHoldOfAnotherProgramIsEndedByForceWhileItIsLookedAt(t *testing.T) {
	hears(t, 2*time.Millisecond, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(100 * time.Millisecond)
		s.change()
		time.Sleep(time.Millisecond)
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndForced})
	}, lock.EndForced)
}

// Under contention the next one has the name at once. Both ends have a message, however late it is understood.
func TestAReleaseToTheNextOneIsToldOnce(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(100 * time.Millisecond)
		came := time.Now()
		s.change(theirs("exclusive b")...)
		time.Sleep(100 * time.Millisecond)
		s.message(came)
	}, lock.EndReleased)
}

func TestAForcedReleaseJustAfterAReleaseHasItsOwnCause(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(theirs("exclusive a")...)
		time.Sleep(100 * time.Millisecond)
		s.change(theirs("exclusive b")...)
		time.Sleep(10 * time.Millisecond)
		s.change()
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndForced})
		s.message(time.Now())
	}, lock.EndReleased, lock.EndForced)
}

// Which of both it was is a matter of a moment. It is one end.
func TestAReleaseJustBeforeTheLeaseEndsIsOneEnd(t *testing.T) {
	hears(t, 0, func(s *redissons) {
		s.change(lock.SeenHold{ID: "exclusive a", TTL: 50 * time.Millisecond, Foreign: true})
		time.Sleep(50 * time.Millisecond)
		s.change()
		time.Sleep(32 * time.Millisecond)
		s.message(time.Now())
	}, lock.EndExpired)
}

func (s *redissons) tells(what lock.What) { s.notify(lock.Notice{What: what}) }

// After an outage a look may be quicker than the message of who made the release.
func TestAReleaseAfterAnOutageIsSeenBeforeItsMessageIsHeard(t *testing.T) {
	const fence = 7
	ours := lock.SeenHold{ID: "exclusive a", TTL: time.Minute, Fence: fence}
	for what, late := range map[string]time.Duration{
		"the message is late": 100 * time.Millisecond, "the message was lost": time.Hour,
	} {
		want := lock.EndReleased
		if late == time.Hour {
			want = lock.EndUnknown
		}
		t.Run(what, func(t *testing.T) {
			hears(t, 0, func(s *redissons) {
				s.change(ours)
				time.Sleep(100 * time.Millisecond)
				s.tells(lock.NoticeDeaf)
				s.tells(lock.NoticeListening)
				s.change()
				time.AfterFunc(late, func() {
					s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: fence})
				})
				time.Sleep(time.Second)
			}, want)
		})
	}
}

// A majority may have lost a hold for a moment, until the members that lost it have it again.
func TestAHoldThatIsSeenAgainHasNotEnded(t *testing.T) {
	ours := lock.SeenHold{ID: "exclusive a", TTL: time.Minute, Fence: 7}
	hears(t, 0, func(s *redissons) {
		s.change(ours)
		time.Sleep(100 * time.Millisecond)
		s.tells(lock.NoticeDeaf)
		s.tells(lock.NoticeListening)
		s.change()
		time.Sleep(100 * time.Millisecond)
		s.change(ours)
		time.Sleep(time.Second)
		s.change()
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: 7})
	}, lock.EndReleased)
}
