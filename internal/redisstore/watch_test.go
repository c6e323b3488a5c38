package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	see := func() lock.Sight {
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
			time.Sleep(100 * time.Millisecond)
			until(t, "it is heard again", func() error { _, err := s.See(t.Context(), "n"); return err })
		}
		if broken == "pubsub" {
			await(t, notices, lock.NoticeListening)
		}
		see()
		see() // a new connection is told of, too
		for _, c := range changes {
			t.Log(broken, c.what)
			see()
			c.change()
			await(t, notices, lock.NoticeChanged)
		}
		see()
		c.FlushAll(t.Context())
		await(t, notices, lock.NoticeFlushed)
	}
}

// watchEnds returns the ends of holds of "n" that are heard from now on, and looks at it when it changes.
func watchEnds(t *testing.T, s *Store) <-chan lock.Notice {
	t.Helper()
	notices, changed := make(chan lock.Notice, 1000), make(chan struct{}, 1)
	stop := s.Watch("n", func(n lock.Notice) {
		switch n.What {
		case lock.NoticeEnded, lock.NoticeListening:
			notices <- n
		case lock.NoticeChanged:
			select {
			case changed <- struct{}{}:
			default:
			}
		default: // not about ends
		}
	})
	<-notices
	ctx, cancel := context.WithCancel(t.Context())
	var looks sync.WaitGroup
	looks.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-changed:
				_, _ = s.See(ctx, "n")
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); stop(); looks.Wait() })
	return notices
}

// What follows a release of Redisson on the same channel is not news of it.
func TestAReleaseOfRedissonIsToldOnce(t *testing.T) {
	_, s, c := begin(t)
	notices := watchEnds(t, s)
	var fences []lock.Fence
	for range 50 {
		c.Publish(t.Context(), layout.Channel("n"), "0")
		g := acquire(t, s, claim("n", "o"))
		fences = append(fences, g.Fence)
		release(t, s, giveBack("n", "o", g.Fence))
	}
	ours, theirs := 0, 0
	count := func(n lock.Notice) {
		switch {
		case n.Cause != lock.EndReleased:
			t.Errorf("got %+v", n)
		case n.Fence == 0:
			theirs++
		case ours < len(fences) && n.Fence == fences[ours]:
			ours++
		default:
			t.Errorf("got %+v out of turn", n)
		}
	}
	for patience := time.After(10 * time.Second); ours+theirs < 100 && !t.Failed(); {
		select {
		case n := <-notices:
			count(n)
		case <-patience:
			t.Errorf("%d notices do not come", 100-ours-theirs)
		}
	}
	if _, err := s.See(t.Context(), "n"); err != nil { // then all is told
		t.Error(err)
	}
	for len(notices) > 0 {
		count(<-notices)
	}
	if ours != 50 || theirs != 50 {
		t.Errorf("heard of %d releases of ours and %d of theirs, want 50 each", ours, theirs)
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
		if sight, err := s.See(t.Context(), "n"); err != nil || len(sight.Holds) > 0 {
			t.Fatalf("%s: saw %+v, %v", when, sight, err)
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
		if _, err := s.Release(t.Context(), giveBack("n", "o", g.Fence)); err != nil {
			t.Fatal(err)
		}
		heard("of ours", g.Fence)
	}
	srv.Client().Publish(t.Context(), layout.Channel("n"), "0")
	heard("of another program", 0)
	for _, ping := range []string{"-ping", "+ping"} { // Redis does not say whether all was heard
		if err := c.Do(t.Context(), "ACL", "SETUSER", "default", ping).Err(); err != nil {
			t.Fatal(err)
		}
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
