package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// holders reads who holds a name, without the times.
func (s *suite) holders(name string, size int) []lock.Holder {
	s.Helper()
	hs, err := s.Store.Holders(s.Context(), name, size)
	if err != nil {
		s.Fatalf("holders of %q: %v", name, err)
	}
	for i := range hs {
		s.wantTTL(hs[i].TTL, ttl)
		hs[i].TTL = 0
	}
	return hs
}

func (s *suite) wantHolders(name string, want ...lock.Holder) {
	s.Helper()
	got := s.holders(name, 100)
	slices.SortFunc(got, func(a, b lock.Holder) int { return cmp.Compare(b.Kind, a.Kind) })
	if !slices.Equal(got, want) {
		s.Errorf("the holders of %q: got %+v, want %+v", name, got, want)
	}
}

func holder(o lock.Owner, kind lock.Kind) lock.Holder {
	return lock.Holder{Owner: Full(o), Kind: kind, Count: 1}
}

var holdersContract = []contract{
	{"NobodyHoldsAFreeName", func(s *suite) { s.wantHolders("n") }},
	{"TheHolderIsNamed", func(s *suite) {
		s.acquire(claim("n", "o:1"))
		s.acquire(claim("n", "o:1"))
		s.wantHolders("n", holder("o:1", lock.Exclusive))
	}},
	{"AWriterAndItsReadAreTwo", func(s *suite) {
		s.acquire(of(lock.Write, "n", "o:1"))
		s.acquire(readsToo("o:2", "o:1"))
		s.wantHolders("n",
			holder("o:1", lock.Write), holder("o:2", lock.Read))
	}},
	{"SomeOfManyReaders", func(s *suite) {
		for _, o := range []lock.Owner{"o:1", "o:2", "o:3", "o:4", "o:5", "o:6"} {
			s.acquire(of(lock.Read, "n", o))
		}
		if got := s.holders("n", 100); len(got) != 6 {
			s.Errorf("got %d readers, want 6: %+v", len(got), got)
		}
		if got := s.holders("n", 2); len(got) != 2 || got[0].Kind != lock.Read || got[0].Owner == got[1].Owner {
			s.Errorf("got %+v, want two of the readers", got)
		}
	}},
	{"PermitsHaveNoOwners", func(s *suite) {
		s.needs(lock.Semaphore)
		s.acquire(some("o:1", 2))
		s.wantHolders("n")
	}},
	{"AReaderWhoseTimePassedIsNone", func(s *suite) {
		s.acquire(of(lock.Read, "n", "o:1"))
		s.acquire(of(lock.Read, "n", "o:2"))
		s.expireHold("n", "o:1")
		s.wantHolders("n", holder("o:2", lock.Read))
	}},
}

var peersContract = []contract{
	{"SubscribersOfATopicHearEachMessage", func(s *suite) {
		heard := make(chan string, 10)
		stop := s.Store.Subscribe("a", func(m []byte) { heard <- "a:" + string(m) })
		defer stop()
		defer s.Store.Subscribe("b", func(m []byte) { heard <- "b:" + string(m) })()
		s.publishUntil("a", "one", 1)
		s.publishUntil("b", "two", 1)
		got := map[string]bool{}
		for range 2 {
			select {
			case m := <-heard:
				got[m] = true
			case <-time.After(within):
				s.Fatalf("heard %v only", got)
			}
		}
		stop()
		s.publishUntil("a", "three", 0)
		if !got["a:one"] || !got["b:two"] || len(heard) > 0 {
			s.Errorf("heard %v, and %d messages more", got, len(heard))
		}
	}},
	{"NobodyHearsATopicWithoutSubscribers", func(s *suite) { s.publishUntil("c", "lost", 0) }},
}

// publishUntil publishes a message until the wanted number of subscribers hears it: subscriptions may begin and end a
// little late.
func (s *suite) publishUntil(topic, message string, heard int) {
	s.Helper()
	s.until("as many hear it as there should", func() bool {
		n, err := s.Store.Publish(s.Context(), topic, []byte(message))
		s.must(err)
		return n == heard
	})
}
