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

var holdersContract = []contract{
	{"NobodyHoldsAFreeName", func(s *suite) { s.wantHolders("n") }},
	{"TheHolderIsNamedWithItsCount", func(s *suite) {
		f := s.acquire(claim("n", "o:1")).Fence
		s.acquire(nested("n", "o:1", 2, f))
		s.wantHolders("n", lock.Holder{Owner: "o:1", Kind: lock.Exclusive, Count: 2})
	}},
	{"AWriterAndItsReadAreTwo", func(s *suite) {
		s.acquire(kindClaim("n", lock.Write, "o:1"))
		beside := kindClaim("n", lock.Read, "o:2")
		beside.Beside = "o:1"
		s.acquire(beside)
		s.wantHolders("n",
			lock.Holder{Owner: "o:1", Kind: lock.Write, Count: 1}, lock.Holder{Owner: "o:2", Kind: lock.Read, Count: 1})
	}},
	{"SomeOfManyReaders", func(s *suite) {
		for _, o := range []lock.Owner{"o:1", "o:2", "o:3", "o:4", "o:5", "o:6"} {
			s.acquire(kindClaim("n", lock.Read, o))
		}
		if got := s.holders("n", 100); len(got) != 6 {
			s.Errorf("got %d readers, want 6: %+v", len(got), got)
		}
		if got := s.holders("n", 2); len(got) != 2 || got[0].Kind != lock.Read || got[0].Owner == got[1].Owner {
			s.Errorf("got %+v, want two of the readers", got)
		}
	}},
	{"PermitsHaveNoOwners", func(s *suite) {
		c := kindClaim("n", lock.Semaphore, "o:1")
		c.Permits, c.Limit = 2, 3
		s.acquire(c)
		s.wantHolders("n")
	}},
	{"AReaderWhoseTimePassedIsNone", func(s *suite) {
		s.acquire(kindClaim("n", lock.Read, "o:1"))
		s.acquire(kindClaim("n", lock.Read, "o:2"))
		if err := s.Hooks.ExpireHold("n", "o:1"); err != nil {
			s.Fatal(err)
		}
		s.wantHolders("n", lock.Holder{Owner: "o:2", Kind: lock.Read, Count: 1})
	}},
}

// kindClaim is a first acquisition of a kind with the usual lease.
func kindClaim(name string, k lock.Kind, o lock.Owner) lock.Claim {
	c := claim(name, o)
	c.Kind = k
	return c
}

var peersContract = []contract{
	{"SubscribersOfATopicHearEachMessage", func(s *suite) {
		heard := make(chan string, 10)
		stop := s.Store.Subscribe("a", func(m []byte) { heard <- "a:" + string(m) })
		defer stop()
		defer s.Store.Subscribe("b", func(m []byte) { heard <- "b:" + string(m) })()
		s.publishUntil("a", "one", 1)
		s.publishUntil("b", "two", 1)
		for got := map[string]bool{}; !got["a:one"] || !got["b:two"]; {
			select {
			case m := <-heard:
				got[m] = true
				if m != "a:one" && m != "b:two" {
					s.Errorf("heard %q", m)
				}
			case <-time.After(within):
				s.Fatalf("heard %v only", got)
			}
		}
		stop()
		s.publishUntil("a", "three", 0)
	}},
	{"NobodyHearsATopicWithoutSubscribers", func(s *suite) { s.publishUntil("c", "lost", 0) }},
}

// publishUntil publishes a message until so many hear it: subscriptions may begin and end a little late.
func (s *suite) publishUntil(topic, message string, heard int) {
	s.Helper()
	end := time.Now().Add(within)
	for {
		n, err := s.Store.Publish(s.Context(), topic, []byte(message))
		if err != nil {
			s.Fatalf("publish to %q: %v", topic, err)
		}
		if n == heard {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%d hear %q, want %d", n, topic, heard)
		}
		time.Sleep(time.Millisecond)
	}
}
