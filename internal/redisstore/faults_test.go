package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
	"github.com/lockd-io/lockd/test/harness"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redistest"
)

// lease is longer than any test.
const lease = time.Minute

// whole is the owner that a short name stands for.
func whole(o lock.Owner) lock.Owner { return storetest.Full(o) }

// wholeID is whole for what Redis has; a writer has another field than a reader.
func wholeID(short string) string {
	if writer, ok := strings.CutSuffix(short, ":write"); ok {
		return string(whole(lock.Owner(writer))) + ":write"
	}
	return string(whole(lock.Owner(short)))
}

func wholes(os ...lock.Owner) []lock.Owner {
	for i := range os {
		os[i] = whole(os[i])
	}
	return os
}

func claim(name string, o lock.Owner) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: whole(o), TTL: lease}
}

func releaseOf(name string, o lock.Owner, f lock.Fence) lock.Return {
	return lock.Return{Name: name, Kind: lock.Exclusive, Owner: whole(o), Fence: f}
}

// handingOver is a release that hands the name over.
func handingOver(r lock.Return, to lock.Owner) lock.Return {
	r.Next = &lock.Successor{Owner: whole(to), TTL: lease}
	return r
}

// wantHeld checks whether somebody holds a name.
func wantHeld(t testing.TB, s *Store, name string, want bool) {
	t.Helper()
	if st, err := s.Look(t.Context(), name); err != nil || st.Held != want {
		t.Errorf("%s: got %+v, %v, want it held: %v", name, st, err, want)
	}
}

// acquire makes an acquisition that must succeed.
func acquire(t testing.TB, s *Store, c lock.Claim) lock.Grant {
	t.Helper()
	g, err := lock.Await(t.Context(), s.StartAcquire, c)
	must(t, err)
	return g
}

// untilGranted is acquire where operations have little time: it may be refused while the machine stands still.
func untilGranted(t testing.TB, s *Store, c lock.Claim) (g lock.Grant) {
	t.Helper()
	until(t, "acquire "+c.Name, func() (err error) {
		g, err = lock.Await(t.Context(), s.StartAcquire, c)
		return err
	})
	return g
}

// attempt makes an acquisition that may fail.
func attempt(t testing.TB, s lock.Store, c lock.Claim) error {
	_, err := lock.Await(t.Context(), s.StartAcquire, c)
	return err
}

// renewing makes one renewal.
func renewing(t testing.TB, s *Store, r lock.Renewal) (err error) {
	s.Renew(t.Context(), []lock.Renewal{r}, func(_ int, e error) { err = e })
	return err
}

// renewOne renews one exclusive hold.
func renewOne(t testing.TB, s *Store, name string, o lock.Owner, f lock.Fence) error {
	return renewing(t, s, renewal(claim(name, o), f))
}

// seenOne renews one that was seen before.
func seenOne(t testing.TB, s *Store, name string, o lock.Owner, f lock.Fence, seen time.Time) error {
	r := renewal(claim(name, o), f)
	r.Seen = seen
	return renewing(t, s, r)
}

// wantLost checks why a hold is gone.
func wantLost(t testing.TB, got error, why lock.LostReason) {
	t.Helper()
	if gone, ok := errors.AsType[*lock.GoneError](got); !ok || gone.Reason != why {
		t.Errorf("got %v, want it lost as %v", got, why)
	}
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

// connected is an error while a connection is missing.
func (s *Store) connected() error {
	for _, p := range []*pipe.Pipeline{s.Shared, s.Steady} {
		if !p.Connected() {
			return errors.New("a connection is missing")
		}
	}
	return nil
}

// until repeats something until it succeeds.
func until(t testing.TB, what string, do func() error) {
	t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestScriptFlushIsNotNoticed(t *testing.T) {
	srv, s, c := begin(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			name, o := fmt.Sprintf("n%d", w), whole(lock.Owner(fmt.Sprintf("o%d", w)))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				g, err := lock.Await(t.Context(), s.StartAcquire, claim(name, o))
				if err == nil {
					err = renewOne(t, s, name, o, g.Fence)
				}
				if err == nil {
					_, err = lock.Await(t.Context(), s.StartRelease, releaseOf(name, o, g.Fence))
				}
				if err != nil {
					t.Errorf("cycle %d of %s: %v", n, name, err)
					return
				}
			}
		})
	}
	for range 200 {
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()

	// One flush costs the text once, not for ever.
	acquire(t, s, claim("after", "o"))
	before := srv.Calls("eval")
	for range 10 {
		acquire(t, s, claim("after", "o"))
	}
	if n := srv.Calls("eval") - before; n != 0 {
		t.Errorf("the text was sent %d times more, want never", n)
	}
}

func TestRestartedRedisWithItsDataKeepsHolds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, quick(srv))
	before, err := s.Probe(t.Context())
	must(t, err)
	f := acquire(t, s, claim("n", "o")).Fence
	srv.Kill()
	until(t, "nothing is done without a server", func() error {
		_, err := s.Probe(t.Context())
		err = errors.Join(err, renewOne(t, s, "n", "o", f)) // the first may find a connection that looks alive
		if err == nil || errors.Is(err, lock.ErrOutcomeUnknown) {
			return fmt.Errorf("got %w, want unavailable", errors.Join(err, errors.New("not yet")))
		}
		wantErr(t, err, lock.ErrUnavailable)
		return nil
	})
	srv.Restart()
	until(t, "renew", func() error { return renewOne(t, s, "n", "o", f) })
	if after, err := s.Probe(t.Context()); err != nil || after == before {
		t.Errorf("got identity %q after %q, %v", after, before, err)
	}
}

func TestOpenWorksWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Kill()
	s := open(t, quick(srv))
	wantErr(t, attempt(t, s, claim("n", "o")), lock.ErrUnavailable)
	heard := make(chan lock.What, 100)
	defer s.Listen("n", lock.Exclusive, func(n lock.Notice) { heard <- n.What })()
	srv.Restart()
	if n := <-heard; n != lock.NoticeListening {
		t.Errorf("heard %v, want listening", n)
	}
	until(t, "acquire", func() error { return attempt(t, s, claim("n", "o")) })
}

func TestPausedRedisIsAnUnknownOutcomeInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, Config{Addr: srv.Addr, OpTimeout: time.Second})
	f := untilGranted(t, s, claim("n", "o")).Fence
	until(t, "both are sent", func() error { // what has waited for too long, as the test stood still, is not
		until(t, "connections", s.connected)
		srv.Pause()
		m, n := attempt(t, s, claim("m", "o")), renewOne(t, s, "n", "o", f)
		if errors.Is(m, lock.ErrOutcomeUnknown) && errors.Is(n, lock.ErrOutcomeUnknown) {
			return nil
		}
		srv.Resume()
		return fmt.Errorf("got %v and %v, want unknown outcomes", m, n) //nolint:errorlint // they may be nil
	})

	// A caller that leaves is not kept.
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := lock.Await(ctx, s.StartAcquire, claim("m", "o"))
	if !errors.Is(err, lock.ErrUnavailable) { // there may be no connection on which it could have been sent
		wantErr(t, err, lock.ErrOutcomeUnknown)
	}

	srv.Resume()
	until(t, "acquire", func() error { return attempt(t, s, claim("m", "o")) })
	until(t, "renew", func() error { return renewOne(t, s, "n", "o", f) })
}

// Renewals on a connection that falls silent are told so in time, and those after it go over the next one.
func TestRenewalsGoOnWhenTheirConnectionIsSilent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.StartProxy(t, srv.Addr)
	s := open(t, Config{Addr: p.Addr, OpTimeout: time.Second})
	var rs []lock.Renewal
	for i := range 3 * renew.Chunk {
		c := claim(fmt.Sprint("n", i), "o")
		rs = append(rs, renewal(c, untilGranted(t, s, c).Fence))
	}
	until(t, "a spare connection", func() error {
		if list := srv.Client().ClientList(t.Context()).Val(); strings.Count(list, "name=lockd-renew ") < 2 {
			return errors.New(list)
		}
		return nil
	})
	until(t, "renewals that fail", func() error { // another connection may have the next reply
		var failed atomic.Bool
		p.StallOne()
		s.Renew(t.Context(), rs, func(_ int, err error) {
			if err != nil && !errors.Is(err, lock.ErrOutcomeUnknown) {
				wantErr(t, err, lock.ErrUnavailable)
			}
			failed.CompareAndSwap(false, err != nil)
		})
		if !failed.Load() {
			return errors.New("all are renewed")
		}
		return nil
	})
	until(t, "renew", func() (failed error) {
		s.Renew(t.Context(), rs[:1], func(_ int, err error) { failed = err })
		return failed
	})
}

func TestAReplicaIsUnavailableAndRefusedAtStart(t *testing.T) {
	srv, s, c := begin(t)
	var rs []lock.Renewal
	for _, kind := range kinds {
		held := usual(kind, kind.String(), "o")
		r := renewal(held, acquire(t, s, held).Fence)
		verify := r
		verify.TTL = 0
		rs = append(rs, r, verify)
	}
	must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	for _, r := range rs {
		wantErr(t, renewing(t, s, r), lock.ErrUnavailable)
	}
	wantErr(t, attempt(t, s, claim("m", "o")), lock.ErrUnavailable)
	_, err := s.Probe(t.Context())
	wantErr(t, err, lock.ErrUnavailable)
	_, err = Open(t.Context(), quick(srv), zap.NewNop(), nil)
	wantErr(t, err, renew.ErrUnfit)

	must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
	until(t, "acquire", func() error { return attempt(t, s, claim("m", "o")) })
	until(t, "probe", func() error { _, err := s.Probe(t.Context()); return err })
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	for _, cfg := range []Config{{}, {Addr: "h:1", Prefix: "a{"}, {Addr: "h:1", Prefix: "{}"}} {
		if _, err := Open(t.Context(), cfg, zap.NewNop(), nil); err == nil {
			t.Errorf("%+v is not refused", cfg)
		}
	}
}

// A stop of lockd does not wait for a server that is silent.
func TestCloseDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	const patience = time.Minute
	srv := redistest.Start(t)
	cfg := Config{Addr: srv.Addr, OpTimeout: 300 * time.Millisecond, ConnectTimeout: patience}
	s, err := Open(t.Context(), cfg, zap.NewNop(), nil)
	must(t, err)
	srv.Pause()
	until(t, "it makes new connections", func() error {
		_, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o"))
		_ = renewOne(t, s, "n", "o", 1)
		if s.Connected() {
			return fmt.Errorf("got %w with a connection", errors.Join(err, errors.New("which is there")))
		}
		return nil
	})
	begun := time.Now()
	if err := s.Close(); err != nil || time.Since(begun) > patience/2 {
		t.Errorf("closed after %v: %v", time.Since(begun), err)
	}
}

// Who has stopped waiting for an answer does not look at it: it may just be coming.
func TestAnAnswerThatIsNotWaitedForIsNotRead(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	srv := redistest.Start(t)
	p := redistest.StartProxy(t, srv.Addr)
	p.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("maxmemory-policy")) })
	deliver := time.AfterFunc(timeout*3/2, p.Deliver) // by nobody who has seen the end of the wait, for the race detector
	defer deliver.Stop()
	s := open(t, Config{Addr: p.Addr, OpTimeout: timeout})
	until(t, "probe", func() error { _, err := s.Probe(t.Context()); return err })
}
