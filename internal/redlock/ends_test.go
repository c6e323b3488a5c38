package redlock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

var bare = lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased}

// Attempts of other programs that fail give back what they got at this master or that, and tell it without a name.
func TestAttemptsOfOthersFailingApartAreNoEnds(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		for i := range 5 {
			c.notes(bare, i)
			time.Sleep(10 * time.Second)
		}
		c.wants("one here, one there")
		c.notes(bare, 0, 1, 2, 3, 4)
		c.wants("a hold", lock.NoticeEnded)
		c.notes(bare, 3, 4, 0, 1, 2)
		c.wants("another one", lock.NoticeEnded)
		time.Sleep(10 * time.Second)
		c.says(lock.NoticeDeaf, 3, 4)
		c.notes(bare, 0)
		c.wants("one, and two are not heard")
		c.notes(bare, 1, 2)
		c.wants("all that are heard", lock.NoticeEnded)
	})
}

// Members differ in how late they tell, and a hold may end before all told of the one before.
func TestEndsOfHoldsOfOthersAreCountedHoweverLateAMemberTells(t *testing.T) {
	t.Parallel()
	inChoir(t, func(c *choir) {
		defer c.watches()()
		for range 200 {
			const ends = 5
			var late []int // members in the order in which they tell; each tells of all
			for i := range c.voices {
				for range ends {
					late = append(late, i)
				}
			}
			rand.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			for _, i := range late {
				c.notes(bare, i)
			}
			if len(c.heard) != ends {
				t.Fatalf("told of %d ends of %d: %v", len(c.heard), ends, late)
			}
			c.heard = nil
		}
		c.notes(bare, 0)
		c.says(lock.NoticeDeaf, 3, 4)
		c.notes(bare, 1, 2)
		c.wants("while two are not heard", lock.NoticeEnded)
		c.says(lock.NoticeListening, 3, 4)
		c.notes(bare, 3, 4)
		c.wants("from those that missed the last one")
		c.notes(bare, 0)
		c.wants("and another one", lock.NoticeEnded)
	})
}

// Each hold of another program had a majority, but not always the same one.
func TestEndsOfHoldsOfOthersAreToldByDifferentMajorities(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		c.notes(bare, 0, 1, 2)
		c.wants("the first", lock.NoticeEnded)
		time.Sleep(300 * time.Millisecond)
		c.notes(bare, 2, 3, 4)
		c.wants("the second", lock.NoticeEnded)
		time.Sleep(300 * time.Millisecond)
		c.notes(bare, 0, 3, 4)
		c.wants("the third", lock.NoticeEnded)
		time.Sleep(300 * time.Millisecond)
		c.notes(bare, 1, 2, 3)
		c.wants("the fourth", lock.NoticeEnded)
	})
}

// A member was unreachable for the other program for a while, and then another is.
func TestEndsAreToldWithoutAMemberAndThenWithoutAnother(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		for range 20 {
			c.notes(bare, 0, 1, 2, 3)
			c.wants("without the last", lock.NoticeEnded)
			time.Sleep(200 * time.Millisecond)
		}
		for range 10 {
			c.notes(bare, 4, 1, 0)
			c.wants("with the last", lock.NoticeEnded)
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// One member missed one message, another goes deaf: ends in a row.
func TestEndsAreToldWithMembersThatHadNoPartAndOneThatIsDeaf(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		c.notes(bare, 0, 1, 2) // 3 and 4 lost their data and have no such hold
		c.wants("a hold", lock.NoticeEnded)
		c.says(lock.NoticeDeaf, 2)
		for range 4 {
			time.Sleep(300 * time.Millisecond)
			c.notes(bare, 0, 1, 3, 4)
			c.wants("the next", lock.NoticeEnded)
		}
	})
}

// Many readers leave at the same moment. What one member tells of all of them comes before what the next one does.
func TestTheEndsOfManyReadersAreEachToldOnce(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		const readers = 200
		for i := range 5 {
			for f := range lock.Fence(readers) {
				c.notes(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: 1 + f}, i)
			}
		}
		if len(c.heard) != readers {
			t.Errorf("told of %d ends of %d", len(c.heard), readers)
		}
		c.heard = nil
	})
}

// What is remembered of ends is bounded, and forgotten.
func TestEndsAreForgotten(t *testing.T) {
	t.Parallel()
	inChoir(t, func(c *choir) {
		w := c.Store.watcher(func(lock.Notice) {})
		end := func(f lock.Fence) {
			w.hear(0, lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: f})
			w.hear(0, bare)
		}
		known := func() int { return max(len(w.ends), len(w.order)) + len(w.others) }
		for f := range lock.Fence(3 * keptEnds) {
			end(1 + f)
		}
		if n := known(); n > keptEnds+1 {
			t.Errorf("%d ends are remembered", n)
		}
		time.Sleep(keptFor + time.Second)
		end(4 * keptEnds)
		if n := known(); n > 2 {
			t.Errorf("later %d ends are remembered", n)
		}
		time.Sleep(time.Second)
	})
}

// What a majority is heard by and what it is not comes in this order.
func TestWhoIsSlowToHearLearnsInOrderWhatIsHeard(t *testing.T) {
	inChoir(t, func(c *choir) {
		var mu sync.Mutex
		slow := func(n lock.Notice) {
			if n.What == lock.NoticeListening {
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			c.heard = append(c.heard, n)
		}
		for _, start := range []func() func(){
			func() func() { return c.Store.Watch("n", slow) },
			func() func() { return c.Store.Listen("n", lock.Exclusive, slow) },
		} {
			stop := start()
			c.says(lock.NoticeListening, 0, 1)
			go c.says(lock.NoticeListening, 2)
			time.Sleep(time.Millisecond)
			c.says(lock.NoticeDeaf, 0)
			time.Sleep(time.Second)
			c.wants("deaf at last", lock.NoticeListening, lock.NoticeDeaf)
			stop()
			for _, v := range c.voices {
				v.watch, v.listen = nil, nil
			}
		}
	})
}

// A hand-over that one member made, and that was a release when it was repeated at others, is one end.
func TestAnEndWithTwoCausesIsToldOnce(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		handed := lock.Notice{What: lock.NoticeEnded, Cause: lock.EndHandedOver, Fence: 1}
		c.notes(handed, 0, 1)
		c.notes(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: 1}, 2, 3)
		if len(c.heard) != 1 || c.heard[0].Cause != lock.EndReleased {
			t.Errorf("heard %+v", c.heard)
		}
		c.heard = nil
	})
}
