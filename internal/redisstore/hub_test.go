package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// listen returns what a listener hears; it has heard that it listens.
func listen(t *testing.T, s *Store, name string) <-chan lock.What {
	t.Helper()
	heard := make(chan lock.What, 1000)
	t.Cleanup(s.Listen(name, lock.Exclusive, func(n lock.Notice) { heard <- n.What }))
	await(t, heard, lock.NoticeListening)
	return heard
}

// await waits for a notice, whatever comes before it.
func await(t *testing.T, heard <-chan lock.What, want lock.What) {
	t.Helper()
	deadline := time.After(harness.Patience)
	for {
		select {
		case n := <-heard:
			if n == want {
				return
			}
		case <-deadline:
			t.Fatalf("notice %v does not come", want)
		}
	}
}

// cycle takes and releases a name.
func cycle(t *testing.T, s *Store, name string) {
	t.Helper()
	g := acquire(t, s, claim(name, "o"))
	release(t, s, releaseOf(name, "o", g.Fence))
}

// Listeners are told that they missed something, whatever ended the connection, and hear again.
func TestListenersAreToldWhenTheirConnectionWasCut(t *testing.T) {
	t.Parallel()
	for how, cut := range map[string]func(t *testing.T, c *redis.Client, p *redistest.Proxy){
		"by an operator": func(t *testing.T, c *redis.Client, _ *redistest.Proxy) {
			until(t, "one connection for all channels is cut", func() error {
				if n, err := c.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result(); err != nil || n != 1 {
					return fmt.Errorf("%d were cut, %w", n, err)
				}
				return nil
			})
		},
		"by Redis, as too much waits to be read": func(t *testing.T, c *redis.Client, _ *redistest.Proxy) {
			do(t, c, "publish", layout.Channel("a"), strings.Repeat("x", 1<<20))
		},
		"as it is silent": func(_ *testing.T, _ *redis.Client, p *redistest.Proxy) { p.Set(redistest.LoseReplies) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, "--client-output-buffer-limit", "pubsub", "64kb", "0", "0")
			p := redistest.StartProxy(t, srv.Addr)
			s, direct := open(t, Config{Addr: p.Addr, HearTimeout: 300 * time.Millisecond}), open(t, quick(srv))
			for range 3 {
				names := map[string]<-chan lock.What{"a": listen(t, s, "a"), "b": listen(t, s, "b")}
				cut(t, srv.Client(), p)
				for _, heard := range names {
					await(t, heard, lock.NoticeDeaf)
				}
				p.Set(redistest.Pass)
				for name, heard := range names {
					await(t, heard, lock.NoticeListening)
					until(t, "a release is heard", func() error { // on a busy machine it may be silent once more
						cycle(t, direct, name)
						select {
						case n := <-heard:
							if n == lock.NoticeReleased {
								return nil
							}
						case <-time.After(time.Second):
						}
						return errors.New("it is not")
					})
				}
			}
		})
	}
}

// One that has stood still for too long with its server is cut, so some tries may show nothing.
func TestASilentButLivingConnectionIsKept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, Config{Addr: srv.Addr, HearTimeout: time.Second, OpTimeout: 5 * time.Second})
	first := lock.NoticeDeaf
	for try := 0; first != lock.NoticeReleased && try < 5; try++ {
		name := fmt.Sprint("n", try)
		heard := listen(t, s, name)
		pings := srv.Calls("ping")
		until(t, "pings", func() error {
			if n := srv.Calls("ping") - pings; n < 4 {
				return fmt.Errorf("%d pings", n)
			}
			return nil
		})
		cycle(t, s, name)
		first = <-heard
	}
	if first != lock.NoticeReleased {
		t.Errorf("heard %v, want only the release", first)
	}
}

// Redis confirms that the last listener left when the next one has come. That one missed nothing.
func TestWhoListensWhenTheLastListenerLeavesIsNotInterrupted(t *testing.T) {
	t.Parallel()
	s := open(t, quick(redistest.Start(t)))
	for range 100 {
		heard := make(chan lock.What, 10)
		stop := s.ListenTurn("n", whole("w"), func(n lock.Notice) { heard <- n.What }) // this does not linger
		if first := <-heard; first != lock.NoticeListening {
			t.Fatalf("heard %v first, want that it listens", first)
		}
		stop()
	}
}

func TestChannelsAreLeftSomeTimeAfterTheLastListener(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Linger = 50 * time.Millisecond
	s := open(t, cfg)
	c := srv.Client()
	var stops []func()
	var heard []chan lock.What
	for i := range 1200 {
		h := make(chan lock.What, 10)
		heard = append(heard, h)
		stops = append(stops, s.Listen(fmt.Sprintf("n%d", i%600), lock.Exclusive, func(n lock.Notice) { h <- n.What }))
	}
	for _, h := range heard {
		await(t, h, lock.NoticeListening)
	}
	channels := func() int {
		l, err := c.PubSubChannels(t.Context(), "*").Result()
		must(t, err)
		return len(l)
	}
	if n := channels(); n != 600 {
		t.Errorf("got %d channels, want one for each name", n)
	}
	for _, stop := range stops[:600] {
		stop()
	}
	stays := listen(t, s, "n0")
	for _, stop := range stops[600:] {
		stop()
	}
	until(t, "the channels are left", func() error {
		if n := channels(); n != 1 {
			return fmt.Errorf("%d channels", n)
		}
		return nil
	})
	cycle(t, s, "n0")
	await(t, stays, lock.NoticeReleased)
	cycle(t, s, "n1")
	again := listen(t, s, "n1")
	cycle(t, s, "n1")
	await(t, again, lock.NoticeReleased)
}

func TestNoReleaseIsMissedBetweenListeningAndStop(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Linger = time.Millisecond // the channel comes and goes all the time
	s := open(t, cfg)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				name := fmt.Sprintf("n%d", (w+i)%3)
				heard := make(chan lock.What, 1000)
				stop := s.Listen(name, lock.Exclusive, func(n lock.Notice) { heard <- n.What })
				await(t, heard, lock.NoticeListening)
				if err := s.lister.Publish(t.Context(), layout.Channel(name), "0").Err(); err != nil {
					t.Error(err)
				}
				await(t, heard, lock.NoticeReleased)
				stop()
			}
		})
	}
	wg.Wait()
}

func TestForcedReleasesOfOthersAreNotHeard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Prefix = "app:"
	s := open(t, cfg)
	same := open(t, cfg)
	cfg.DB = 1
	otherDB := open(t, cfg)
	cfg.DB, cfg.Prefix = 0, "other:"
	otherPrefix := open(t, cfg)
	heard := make(chan string, 1000)
	defer s.ListenForced(func(name string) { heard <- name })()
	if first := <-heard; first != "" {
		t.Errorf("heard %q first, want that it listens", first)
	}
	for _, from := range []*Store{otherDB, otherPrefix, same} {
		acquire(t, from, claim("n", "o"))
		if held, err := from.ForceRelease(t.Context(), "n", lock.Exclusive); err != nil || !held {
			t.Fatalf("got %v, %v", held, err)
		}
	}
	if name := <-heard; name != "n" {
		t.Errorf("heard %q, want n", name)
	}
	if len(heard) > 0 {
		t.Errorf("heard %q besides", <-heard)
	}
	_, err := srv.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
	must(t, err)
	if again := <-heard; again != "" {
		t.Errorf("heard %q after an interruption, want nothing in particular", again)
	}
}

func TestCloseEndsListening(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, err := Open(t.Context(), quick(srv), zaptest.NewLogger(t), nil)
	must(t, err)
	heard := make(chan lock.What, 10)
	stop := s.Listen("n", lock.Exclusive, func(n lock.Notice) { heard <- n.What })
	await(t, heard, lock.NoticeListening)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	stop()
	wantErr(t, attempt(t, s, claim("n", "o")), lock.ErrUnavailable)
	wantErr(t, renewOne(t, s, "n", "o", 1), lock.ErrUnavailable)
}

// Who asks whether all was passed on is answered, whatever becomes of the connection.
func TestQuestionsAreAnsweredWhateverBecomesOfTheConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.StartProxy(t, srv.Addr)
	s := open(t, Config{Addr: p.Addr, HearTimeout: 100 * time.Millisecond})
	heard := listen(t, s, "n")
	answered := make(chan int, 1000)
	ask := func(n int) {
		t.Helper()
		for i := range n {
			s.hub.Passed(func() { answered <- i })
			time.Sleep(time.Millisecond)
		}
		times := make([]int, n)
		for range n {
			times[harness.Soon(t, "each question is answered", answered)]++
		}
		if i := slices.IndexFunc(times, func(n int) bool { return n != 1 }); i >= 0 {
			t.Errorf("question %d was answered %d times", i, times[i])
		}
	}
	ask(100)
	p.Set(redistest.LoseReplies)
	ask(3)
	p.Set(redistest.Pass)
	await(t, heard, lock.NoticeListening)
	stop := make(chan struct{})
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_ = srv.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err()
			}
		}
	})
	ask(200)
	close(stop)
	cuts.Wait()
}

// The writer may be the one that finds the connection broken, and replaces it while the reader passes something on.
func TestAQuestionIsAnsweredThoughTheReaderDidNotSeeTheConnectionBreak(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, Config{Addr: srv.Addr, HearTimeout: time.Second})
	c := srv.Client()
	heard, busy, slow := make(chan lock.What, 100), make(chan struct{}, 100), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(slow) })
	defer letGo()
	defer s.Listen("n", lock.Exclusive, func(n lock.Notice) {
		heard <- n.What
		if n.What == lock.NoticeReleased {
			busy <- struct{}{}
			<-slow
		}
	})()
	await(t, heard, lock.NoticeListening)
	listen(t, s, "m")
	until(t, "the reader is busy", func() error { // what was said to a connection that was cut just then is not heard
		must(t, c.Publish(t.Context(), layout.Channel("n"), "0").Err())
		select {
		case <-busy:
			return nil
		case <-time.After(time.Second):
			return errors.New("it is not")
		}
	})
	asked := srv.Calls("ping")
	answered := make(chan struct{})
	s.hub.Passed(func() { close(answered) })
	until(t, "it is asked", func() error {
		if srv.Calls("ping") == asked {
			return errors.New("it is not")
		}
		return nil
	})
	before, more := s.hub.ID(), 0
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	until(t, "the writer finds out", func() error {
		more++
		s.Listen(fmt.Sprint("m", more), lock.Exclusive, func(lock.Notice) {})
		if s.hub.ID() == before {
			return errors.New("it has no other connection")
		}
		return nil
	})
	letGo()
	harness.Soon(t, "it is answered", answered)
}
