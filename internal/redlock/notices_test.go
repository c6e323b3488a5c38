package redlock

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// voice is a member whose notices a test makes.
type voice struct {
	*node

	mu     sync.Mutex // guards the fields below
	listen []func(lock.Notice)
	watch  []func(lock.Notice)
	forced []func(string)
}

func (v *voice) Listen(_ string, _ lock.Kind, notify func(lock.Notice)) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listen = append(v.listen, notify)
	return func() {}
}

func (v *voice) Watch(_ string, notify func(lock.Notice)) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watch = append(v.watch, notify)
	return func() {}
}

func (v *voice) ListenForced(notify func(string)) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forced = append(v.forced, notify)
	return func() {}
}

// choir is a majority of members that say what a test wants.
type choir struct {
	*world
	voices []*voice
	heard  []lock.Notice
}

func inChoir(t *testing.T, test func(c *choir)) {
	inWorld(t, 5, Config{}, func(w *world) {
		c := &choir{world: w}
		var all []lock.Store
		for _, n := range w.nodes {
			v := &voice{node: n}
			c.voices = append(c.voices, v)
			all = append(all, v)
		}
		s, err := New(Config{}, all, w.log, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Store = s
		test(c)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// says has some members say something to those who listen, and those who watch.
func (c *choir) says(what lock.What, members ...int) { c.notes(lock.Notice{What: what}, members...) }

func (c *choir) notes(n lock.Notice, members ...int) {
	for _, i := range members {
		for _, notify := range slices.Concat(c.voices[i].listen, c.voices[i].watch) {
			notify(n)
		}
	}
}

// wants checks what was heard since it was last called.
func (c *choir) wants(when string, want ...lock.What) {
	c.Helper()
	synctest.Wait()
	var got []lock.What
	for _, n := range c.heard {
		got = append(got, n.What)
	}
	c.heard = nil
	if !slices.Equal(got, want) {
		c.Errorf("%s: heard %v, want %v", when, got, want)
	}
}

func TestAMajorityIsListenedTo(t *testing.T) {
	inChoir(t, func(c *choir) {
		stop := c.Store.Listen("n", lock.Exclusive, func(n lock.Notice) { c.heard = append(c.heard, n) })
		c.says(lock.NoticeListening, 0, 1)
		c.wants("two of five hear")
		c.says(lock.NoticeListening, 2, 3, 4)
		c.wants("five hear", lock.NoticeListening)
		c.says(lock.NoticeDeaf, 0, 1)
		c.wants("three hear")
		c.says(lock.NoticeDeaf, 2)
		c.wants("two hear", lock.NoticeDeaf)
		c.says(lock.NoticeListening, 0)
		c.wants("three hear again", lock.NoticeListening)
		c.says(lock.NoticeListening, 1, 2)

		for range 3 {
			c.says(lock.NoticeReleased, 0, 1)
			c.wants("two tell of a release")
			c.says(lock.NoticeReleased, 2, 3, 4)
			c.wants("five do", lock.NoticeReleased)
			time.Sleep(time.Second)
			c.wants("later")
		}
		stop()
		c.says(lock.NoticeReleased, 0, 1, 2, 3, 4)
		c.wants("nobody listens any more")
	})
}

// What less than a majority tells of is worth an attempt only if no majority holds the name: it may come from an
// attempt that failed.
func TestAReleaseThatFewTellOfIsChecked(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.Store.Listen("n", lock.Exclusive, func(n lock.Notice) { c.heard = append(c.heard, n) })()
		c.says(lock.NoticeListening, 0, 1, 2, 3, 4)
		c.wants("all hear", lock.NoticeListening)
		f := c.take(c.Store, claimOf("n", "o")).Fence
		c.says(lock.NoticeReleased, 1, 3)
		time.Sleep(time.Second)
		c.wants("while it is held")
		c.give(c.Store, returnOf("n", "o", f))
		c.says(lock.NoticeReleased, 0)
		time.Sleep(2 * fewPause)
		c.wants("when it is free", lock.NoticeReleased)
		c.says(lock.NoticeReleased, 0, 1, 2, 3)
		c.wants("the next one", lock.NoticeReleased)
	})
}

// watches begins to watch a name at all members. What the watcher is told, but for changes, is heard.
func (c *choir) watches() (stop func()) {
	stop = c.Store.Watch("n", func(n lock.Notice) {
		if n.What != lock.NoticeChanged {
			c.heard = append(c.heard, n)
		}
	})
	c.says(lock.NoticeListening, 0, 1, 2, 3, 4)
	c.wants("all hear", lock.NoticeListening)
	return stop
}

// What is told of an end is sure when a majority told of it.
func TestTheEndOfAHoldIsSureWhenAMajorityToldOfIt(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		ended := func(cause lock.EndCause, f lock.Fence) lock.Notice {
			return lock.Notice{What: lock.NoticeEnded, Cause: cause, Fence: f}
		}
		tell := func(when string, n lock.Notice, cause lock.EndCause, sure bool, members ...int) {
			c.Helper()
			c.heard = nil
			c.notes(n, members...)
			synctest.Wait()
			for _, got := range c.heard {
				if got.What != lock.NoticeEnded || got.Cause != cause || got.Fence != n.Fence || got.Unsure == sure {
					c.Errorf("%s: heard %+v, want cause %d, sure: %v", when, got, cause, sure)
				}
			}
			if len(c.heard) != len(members) {
				c.Errorf("%s: heard %d ends", when, len(c.heard))
			}
			c.heard = nil
		}
		tell("a minority", ended(lock.EndReleased, 1), lock.EndReleased, false, 0, 1)
		tell("a majority", ended(lock.EndReleased, 1), lock.EndReleased, true, 2)
		c.notes(ended(lock.EndReleased, 1), 3, 4)
		c.wants("the others, later")
		tell("a minority cannot hand over", ended(lock.EndHandedOver, 2), lock.EndReleased, false, 0, 1)
		tell("a majority can", ended(lock.EndHandedOver, 2), lock.EndHandedOver, true, 2)
		tell("another program has no fences", ended(lock.EndReleased, 0), lock.EndReleased, false, 0, 1, 2, 3, 4)
		for f := range lock.Fence(2 * keptEnds) {
			c.notes(ended(lock.EndReleased, 10+f), 0, 1)
		}
		tell("those of many readers are remembered", ended(lock.EndReleased, 9+2*keptEnds), lock.EndReleased, true, 2)
		tell("but not of all", ended(lock.EndReleased, 10), lock.EndReleased, false, 2)
		c.says(lock.NoticeFlushed, 0, 1)
		c.wants("two lost their data")
		c.says(lock.NoticeFlushed, 2)
		c.wants("three did", lock.NoticeFlushed)
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
			if n.What != lock.NoticeChanged {
				mu.Lock()
				defer mu.Unlock()
				c.heard = append(c.heard, n)
			}
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

func TestForcedReleasesAreHeard(t *testing.T) {
	inChoir(t, func(c *choir) {
		var heard []string
		defer c.Store.ListenForced(func(name string) { heard = append(heard, name) })()
		tell := func(name string, members ...int) {
			for _, i := range members {
				c.voices[i].forced[0](name)
			}
		}
		tell("n", 0, 1, 2)
		tell("", 3, 4, 3)
		if want := []string{"n", "n", "n"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
		tell("", 0)
		if heard[len(heard)-1] != "" {
			t.Error("a forced release could have been missed by a majority, and nobody says so")
		}
	})
}
