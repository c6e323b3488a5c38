package redlock

import (
	"slices"
	"sync"
	"sync/atomic"
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

// wantsEnd is wants for one end, which is sure or not.
func (c *choir) wantsEnd(when string, sure bool) {
	c.Helper()
	for _, n := range c.heard {
		if n.Unsure == sure {
			c.Errorf("%s: heard %+v, want it to be sure: %v", when, n, sure)
		}
	}
	c.wants(when, lock.NoticeEnded)
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

func TestTheEndOfAHoldIsToldOnce(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		end := func(f lock.Fence) lock.Notice {
			return lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: f}
		}
		c.notes(end(1), 0, 1)
		c.wants("two tell: nobody had it")
		c.notes(end(1), 2, 3, 4)
		c.wants("five tell", lock.NoticeEnded)
		c.notes(end(2), 0, 1, 2, 3, 4)
		c.wants("the next one", lock.NoticeEnded)
		c.says(lock.NoticeDeaf, 4)
		c.notes(end(3), 0, 1)
		c.wantsEnd("two tell, and one is not heard", false)
		c.notes(end(3), 2)
		c.wantsEnd("the third tells late", true)
		c.notes(end(3), 3)
		c.wants("the fourth tells")
		handed := lock.Notice{What: lock.NoticeEnded, Cause: lock.EndHandedOver, Fence: 4}
		c.notes(handed, 0, 1)
		time.Sleep(2 * lagTime)
		synctest.Wait()
		if n := c.heard[len(c.heard)-1]; n.Cause != lock.EndReleased || !n.Unsure {
			t.Errorf("a minority handed it over: got %+v, want an unsure release", n)
		}
		c.wantsEnd("two tell, and one is not heard", false)
		c.says(lock.NoticeFlushed, 0, 1)
		c.wants("two lost their data")
		c.says(lock.NoticeFlushed, 2)
		c.wants("three did", lock.NoticeFlushed)
	})
}

// A member that dies at a release cannot tell of it, and may be known to be dead only after the others told.
func TestMembersThatAreHeardNoMoreAreNotWaitedFor(t *testing.T) {
	inChoir(t, func(c *choir) {
		defer c.watches()()
		ended := lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: 1}
		c.notes(ended, 0, 1)
		c.wants("two tell, and three are dead")
		c.says(lock.NoticeDeaf, 2)
		c.wantsEnd("one of those is known to be", false)
		c.says(lock.NoticeDeaf, 3)
		c.wants("two are")
		c.says(lock.NoticeListening, 2, 3)
		c.notes(ended, 3)
		c.wantsEnd("one was not dead, and tells late", true)

		ended.Fence = 2
		c.notes(ended, 0, 1)
		time.Sleep(keptFor + time.Second)
		c.says(lock.NoticeDeaf, 2)
		c.wants("one dies long after a minority told")
		c.says(lock.NoticeListening, 2)
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

// While so many members do not vote that nobody can have a name, what attempts leave and give back there wakes nobody:
// those would try, and wake each other.
func TestNobodyIsWokenForWhatNobodyCanHave(t *testing.T) {
	inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
		for _, n := range w.nodes[:3] {
			n.restart()
		}
		for _, n := range w.nodes {
			n.lag(time.Millisecond)
		}
		var woken atomic.Int64
		try := func() { _, _ = w.Store.Acquire(w.Context(), claimOf("n", "o")) }
		defer w.Store.Listen("n", lock.Exclusive, func(n lock.Notice) {
			if n.What == lock.NoticeReleased {
				woken.Add(1)
				go try()
			}
		})()
		try()
		time.Sleep(30 * time.Second)
		if n := woken.Load(); n > 0 {
			t.Errorf("it was woken %d times in 30 s", n)
		}
		time.Sleep(40 * time.Second) // they vote
		f := w.take(w.Store, claimOf("n", "o")).Fence
		w.give(w.Store, returnOf("n", "o", f))
		synctest.Wait()
		if n := woken.Load(); n != 1 {
			t.Errorf("woken %d times by a release", n)
		}
		time.Sleep(11 * time.Second)
	})
}

// One of three members is away and one is held. Whoever waits takes the third in vain, and is not woken by giving that
// back; but by the release of what is in the way.
func TestNobodyIsWokenByWhatAMinorityGivesBack(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write} {
		inWorld(t, 3, Config{}, func(w *world) {
			for _, n := range w.nodes[1:] {
				n.lag(time.Millisecond)
			}
			w.nodes[0].becomes(down)
			other := claimOf("n", "other")
			other.Kind, other.TTL = kind, time.Minute
			w.puts(2, other)
			c := claimOf("n", "o")
			c.Kind = kind
			var woken atomic.Int64
			var had atomic.Bool
			try := func() {
				if _, err := w.Store.Acquire(w.Context(), c); err == nil {
					had.Store(true)
				}
			}
			defer w.Store.Listen("n", kind, func(n lock.Notice) {
				if n.What == lock.NoticeReleased {
					woken.Add(1)
					go try()
				}
			})()
			try()
			time.Sleep(30 * time.Second)
			if n := woken.Load(); n > 0 {
				t.Errorf("%v: woken %d times in 30 s", kind, n)
			}
			r := returnOf("n", "other", 0)
			r.Kind = kind
			if _, err := w.nodes[2].Store.Release(w.Context(), r); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
			if !had.Load() {
				t.Errorf("%v: woken %d times, and the name is free", kind, woken.Load())
			}
		})
	}
}
