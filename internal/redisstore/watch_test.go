package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// watchAll watches many names and returns when all are heard and looked at.
func watchAll(t *testing.T, s *Store, n int) (stop func()) {
	t.Helper()
	heard := make(chan lock.What, 10*n)
	stops := make([]func(), n)
	for i := range n {
		name := fmt.Sprintf("watched%d", i)
		stops[i] = s.Watch(name, func(n lock.Notice) {
			if n.What == lock.NoticeListening {
				heard <- n.What
			}
		})
	}
	for range n {
		await(t, heard, lock.NoticeListening)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Patterns would make publishing 100 times slower, for as long as Redis lives.
func TestManyNamesAreWatchedWithoutPatterns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Linger = 50 * time.Millisecond
	s, c := open(t, cfg), srv.Client()
	stop := watchAll(t, s, 2000)
	if n := c.PubSubNumPat(t.Context()).Val(); n != 0 {
		t.Errorf("%d patterns are subscribed to, want none", n)
	}
	stop()
	until(t, "the channels are left", func() error {
		if n := len(c.PubSubChannels(t.Context(), "*").Val()); n > 0 {
			return fmt.Errorf("%d channels", n)
		}
		return nil
	})
}

func TestAChangeOfAWatchedNameIsToldByRedis(t *testing.T) {
	_, s, c := begin(t)
	notices := make(chan lock.What, 1000)
	defer s.Watch("n", func(n lock.Notice) { notices <- n.What })()
	await(t, notices, lock.NoticeListening)
	see := func() lock.Seen {
		t.Helper()
		st, err := s.See(t.Context(), "n")
		if err != nil || !st.Tracked {
			t.Fatalf("got %+v, %v, want it tracked", st, err)
		}
		for len(notices) > 0 {
			<-notices
		}
		return st
	}
	changes := []struct { // in an order in which each does change something
		what   string
		change func()
	}{
		{"taken", func() { c.HSet(t.Context(), "n", "5a2c2bd0-9f0b-4b50-8b07-111111111111:42", 1) }},
		{"deleted", func() { c.Del(t.Context(), "n") }},
		{"a permit", func() { c.ZAdd(t.Context(), layout.PermitsOut("n"), redis.Z{Score: 1, Member: "x"}) }},
	}
	for _, broken := range []string{"", "normal", "pubsub"} {
		if broken != "" {
			c.ClientKillByFilter(t.Context(), "TYPE", broken, "SKIPME", "yes")
			if broken == "pubsub" {
				await(t, notices, lock.NoticeListening)
			}
			until(t, "it is tracked again", func() error {
				st, err := s.See(t.Context(), "n")
				if err == nil && !st.Tracked {
					err = errors.New("it is not")
				}
				return err
			})
		}
		see()
		see() // a new connection is told of, too
		for _, c := range changes {
			t.Log(broken, c.what)
			see()
			c.change()
			await(t, notices, lock.NoticeTouched)
		}
		see()
		c.FlushAll(t.Context())
		await(t, notices, lock.NoticeFlushed)
	}
}

// What follows a release of Redisson on the same channel is not news of it.
func TestAReleaseOfRedissonIsToldOnce(t *testing.T) {
	_, s, c := begin(t)
	notices := make(chan lock.Notice, 1000)
	defer s.Watch("n", func(n lock.Notice) { notices <- n })()
	for n := range notices {
		if n.What == lock.NoticeListening {
			break
		}
	}
	const each = 50
	told := make(map[lock.Fence]int) // 0 for another program
	count := func(n lock.Notice) {
		switch {
		case n.What == lock.NoticeChanged:
			_, err := s.See(t.Context(), "n")
			must(t, err)
		case n.What == lock.NoticeEnded && n.Cause == lock.EndReleased:
			told[n.Fence]++
		case n.What == lock.NoticeEnded:
			t.Errorf("got %+v", n)
		}
	}
	var fences []lock.Fence
	for range each {
		c.Publish(t.Context(), layout.Channel("n"), "0")
		fences = append(fences, acquire(t, s, claim("n", "o")).Fence)
		release(t, s, releaseOf("n", "o", fences[len(fences)-1]))
		for len(notices) > 0 {
			count(<-notices)
		}
	}
	until(t, "all is told", func() error {
		_, err := s.See(t.Context(), "n")
		for len(notices) > 0 {
			count(<-notices)
		}
		if n := told[0] + len(told) - 1; err == nil && n < 2*each {
			err = fmt.Errorf("told of %d ends", n)
		}
		return err
	})
	for _, f := range fences {
		if told[f] != 1 {
			t.Errorf("fence %d was told %d times", f, told[f])
		}
	}
	if told[0] != each || len(told) != each+1 {
		t.Errorf("told %v, want each of ours once, and another program's %d times", told, each)
	}
}

// What was told before a look is heard when it returns, and known for what it is, however late it is read.
func TestALookWaitsForWhatWasToldBefore(t *testing.T) {
	srv, s, c := begin(t)
	notices := make(chan lock.Notice, 1000)
	defer s.Watch("n", func(n lock.Notice) {
		if n.What == lock.NoticeEnded || n.What == lock.NoticeListening {
			notices <- n
		}
	})()
	<-notices
	for range 4 { // who is told first is up to chance
		heard := make(chan lock.What, 100)
		defer s.Listen("n", lock.Exclusive, func(n lock.Notice) {
			if n.What == lock.NoticeReleased {
				time.Sleep(50 * time.Millisecond) // nothing is read meanwhile
			}
			heard <- n.What
		})()
		await(t, heard, lock.NoticeListening)
	}
	heard := func(when string, want ...lock.Fence) {
		t.Helper()
		if seen, err := s.See(t.Context(), "n"); err != nil || len(seen.Holds) > 0 {
			t.Fatalf("%s: saw %+v, %v", when, seen, err)
		}
		var got []lock.Fence
		for len(notices) > 0 {
			got = append(got, (<-notices).Fence)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: heard of ends with fences %v, want %v", when, got, want)
		}
	}
	for range 3 {
		g := acquire(t, s, claim("n", "o"))
		release(t, s, releaseOf("n", "o", g.Fence))
		heard("of ours", g.Fence)
	}
	srv.Client().Publish(t.Context(), layout.Channel("n"), "0")
	heard("of another program", 0)
	for _, ping := range []string{"-ping", "+ping"} { // Redis does not say whether all was heard
		must(t, c.Do(t.Context(), "ACL", "SETUSER", "default", ping).Err())
		c.Publish(t.Context(), layout.Channel("n"), "0")
		until(t, "it is heard", func() error {
			if _, err := s.See(t.Context(), "n"); err != nil || len(notices) == 0 {
				return fmt.Errorf("not heard, %w", err)
			}
			return nil
		})
		<-notices
	}
}
