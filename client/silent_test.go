package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// silence is a hook that keeps requests back until the server is heard again.
type silence struct {
	mu    sync.Mutex
	over  bool
	later []func()
}

func (s *silence) hook(fs *fakeSession, r *lockdv1.SessionRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.later = append(s.later, func() { fs.handle(r) })
	return true
}

// end has the server answer all that was asked in the meantime, and go on.
func (s *silence) end() {
	s.mu.Lock()
	s.over = true
	later := s.later
	s.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// wantBounded checks that a call returned after a time on the clock of the bubble, with an error.
func wantBounded(t *testing.T, what string, want time.Duration, call func() error, errs ...error) {
	t.Helper()
	begun := time.Now()
	err := call()
	if d := time.Since(begun); d < want || d > want+time.Microsecond {
		t.Errorf("%s returned after %v, want %v", what, d, want)
	}
	wantError(t, err, errs...)
}

func TestCallsToASilentServerAreBounded(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l, fixed := mustLock(t, c, "n"), mustLock(t, c, "fixed", client.Lease(time.Hour))
		pool := mustLock(t, c, "pool", client.Permits(3, 3))
		several, err := c.LockAll(t.Context(), []client.Item{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		f.setHook(new(silence).hook)
		ctx := t.Context()
		unknown := client.ErrOutcomeUnknown
		wantBounded(t, "TryLock", client.DefaultAnswerTimeout, func() error { _, err := c.TryLock(ctx, "m"); return err },
			unknown, client.ErrUnavailable)
		wantBounded(t, "Lock with Wait(0)", client.DefaultAnswerTimeout,
			func() error { _, err := c.Lock(ctx, "m", client.Wait(0)); return err }, unknown)
		wantBounded(t, "Lock with Wait(100ms)", client.DefaultAnswerTimeout+100*time.Millisecond,
			func() error { _, err := c.Lock(ctx, "m", client.Wait(100*time.Millisecond)); return err }, unknown)
		wantBounded(t, "LockAll with Wait(100ms)", client.DefaultAnswerTimeout+100*time.Millisecond, func() error {
			_, err := c.LockAll(ctx, []client.Item{{Name: "x"}, {Name: "y"}}, client.Wait(100*time.Millisecond))
			return err
		}, unknown)
		wantBounded(t, "Extend", client.DefaultAnswerTimeout, func() error { return fixed.Extend(ctx, time.Hour) }, unknown)
		wantBounded(t, "MakeFixed", client.DefaultAnswerTimeout, func() error { return l.MakeFixed(ctx, time.Hour) }, unknown)
		wantBounded(t, "MakeAuto", client.DefaultAnswerTimeout, func() error { return fixed.MakeAuto(ctx) }, unknown)
		wantBounded(t, "Shorten", client.DefaultAnswerTimeout, func() error { return fixed.Shorten(ctx, time.Minute) },
			unknown)
		wantBounded(t, "KeepPermits", client.DefaultAnswerTimeout,
			func() error { _, err := pool.KeepPermits(ctx, 1); return err }, unknown)
		wantBounded(t, "SetLimit", client.DefaultAnswerTimeout,
			func() error { _, err := c.SetLimit(ctx, "pool", 4); return err }, unknown)
		wantBounded(t, "Look", client.DefaultAnswerTimeout, func() error { _, err := c.Look(ctx, "n"); return err },
			client.ErrUnavailable)
		wantBounded(t, "Holds", client.DefaultAnswerTimeout, func() error { _, err := holds(c, ""); return err },
			client.ErrUnavailable)
		wantBounded(t, "Watch", client.DefaultAnswerTimeout, func() error { _, err := c.Watch(ctx, "n"); return err },
			client.ErrUnavailable)
		wantBounded(t, "Unlock", client.DefaultAnswerTimeout, func() error { return l.Unlock(ctx) }, unknown)
		wantBounded(t, "another Unlock", client.DefaultAnswerTimeout, func() error { return l.Unlock(ctx) }, unknown)
		wantBounded(t, "Unlock of several", client.DefaultAnswerTimeout, func() error { return several.Unlock(ctx) }, unknown)
		life, end := context.WithTimeout(ctx, time.Hour) // of what is watched, not of the question
		defer end()
		wantBounded(t, "Watch for an hour", client.DefaultAnswerTimeout,
			func() error { _, err := c.Watch(life, "n"); return err }, client.ErrUnavailable)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		wantBounded(t, "TryLock with a deadline", 50*time.Millisecond,
			func() error { _, err := c.TryLock(short, "m"); return err }, unknown, context.DeadlineExceeded)
	})
}

// Close does not wait long for a server that just left a call unanswered.
func TestCloseOfASilentServerIsShort(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "n")
		f.setHook(deaf)
		_, err := c.TryLock(t.Context(), "m")
		wantError(t, err, client.ErrOutcomeUnknown)
		wantBounded(t, "Close", 200*time.Millisecond, c.Close, client.ErrOutcomeUnknown)
	})
}

// deaf is a hook that has the server read no further.
func deaf(s *fakeSession, _ *lockdv1.SessionRequest) bool {
	<-s.stream.Context().Done()
	return true
}

// Who sends waits while the server does not read. That must not be a caller, whose time is bounded.
func TestNobodyWaitsForAServerThatDoesNotRead(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, strings.Repeat("n", 500), client.Lease(time.Hour))
		f.setHook(deaf)
		for range 400 { // much more than may be sent ahead
			wantBounded(t, "Extend", time.Millisecond, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				return l.Extend(ctx, time.Hour)
			}, context.DeadlineExceeded)
			if t.Failed() {
				return
			}
		}
		wantBounded(t, "Unlock", client.DefaultAnswerTimeout, func() error { return l.Unlock(t.Context()) },
			client.ErrOutcomeUnknown)
	})
}

func TestACancelledContextReturnsAtOnce(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l, fixed := mustLock(t, c, "n"), mustLock(t, c, "fixed", client.Lease(time.Hour))
		f.setHook(new(silence).hook)
		for what, call := range map[string]func(context.Context) error{
			"Lock":    func(ctx context.Context) error { _, err := c.Lock(ctx, "m"); return err },
			"TryLock": func(ctx context.Context) error { _, err := c.TryLock(ctx, "m"); return err },
			"Extend":  func(ctx context.Context) error { return fixed.Extend(ctx, time.Hour) },
			"Unlock":  l.Unlock,
			"Watch":   func(ctx context.Context) error { _, err := c.Watch(ctx, "m"); return err },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			wantBounded(t, what, time.Second, func() error { return call(ctx) }, context.Canceled)
			cancel()
		}
	})
}

func TestAnswerTimeoutIsAnOption(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t, client.WithAnswerTimeout(300*time.Millisecond))
		l := mustLock(t, c, "n")
		f.setHook(new(silence).hook)
		wantBounded(t, "TryLock", 300*time.Millisecond, func() error { _, err := c.TryLock(t.Context(), "m"); return err },
			client.ErrOutcomeUnknown)
		wantBounded(t, "Watch", 300*time.Millisecond, func() error { _, err := c.Watch(t.Context(), "m"); return err },
			client.ErrUnavailable)
		wantBounded(t, "Unlock", 300*time.Millisecond, func() error { return l.Unlock(t.Context()) },
			client.ErrOutcomeUnknown)
	})
}

// A server that takes the connection and says nothing.
func TestOpeningASessionIsBounded(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		f.setHook(func(*fakeSession, *lockdv1.SessionRequest) bool { return true })
		c := f.dial(t)
		wantBounded(t, "TryLock", client.DefaultAnswerTimeout,
			func() error { _, err := c.TryLock(t.Context(), "n"); return err }, client.ErrUnavailable)
		wantBounded(t, "Lock", 100*time.Millisecond, func() error {
			_, err := c.Lock(t.Context(), "n", client.Wait(100*time.Millisecond))
			return err
		}, client.ErrTimedOut)
		wantBounded(t, "Watch", client.DefaultAnswerTimeout, func() error { _, err := c.Watch(t.Context(), "n"); return err },
			client.ErrUnavailable)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		wantBounded(t, "Watch that is cancelled", time.Second, func() error { _, err := c.Watch(ctx, "n"); return err },
			context.Canceled)
		wantBounded(t, "Close", 0, c.Close)
	})
}

func TestLateGrantsAreReleased(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		var s silence
		f.setHook(s.hook)
		_, err := c.TryLock(t.Context(), "a")
		wantError(t, err, client.ErrOutcomeUnknown)
		_, err = c.Lock(t.Context(), "b", client.Wait(time.Second))
		wantError(t, err, client.ErrOutcomeUnknown)
		_, err = c.TryLockAll(t.Context(), []client.Item{{Name: "c"}, {Name: "d"}})
		wantError(t, err, client.ErrOutcomeUnknown)
		s.end()
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "d"} {
			if h := f.holder(name); h != "" {
				t.Errorf("%q still holds %s", h, name)
			}
		}
		mustLock(t, c, "a")
	})
}

func TestUnlockAfterAnUnknownOutcome(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		several, err := c.LockAll(t.Context(), []client.Item{{Name: "a"}, {Name: "b"}})
		if err != nil {
			t.Fatal(err)
		}
		var s silence
		f.setHook(s.hook)
		wantError(t, l.Unlock(t.Context()), client.ErrOutcomeUnknown)
		wantError(t, several.Unlock(t.Context()), client.ErrOutcomeUnknown)
		s.end()
		for _, unlock := range []func(context.Context) error{l.Unlock, several.Unlock, several.Unlock} {
			if err := unlock(t.Context()); err != nil {
				t.Errorf("after the server answered: %v", err)
			}
		}
		wantError(t, l.Unlock(t.Context()), client.ErrNotHeld)
		if f.holder("n")+f.holder("a")+f.holder("b") != "" {
			t.Error("a name is still held")
		}
	})
}

func TestUnlockStaysUnknownWhenTheSessionEnded(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		f.setHook(new(silence).hook)
		wantError(t, l.Unlock(t.Context()), client.ErrOutcomeUnknown)
		time.Sleep(time.Minute) // the session is given up
		wantError(t, l.Unlock(t.Context()), client.ErrOutcomeUnknown, client.ErrSilent)
		wantError(t, l.Unlock(t.Context()), client.ErrOutcomeUnknown, client.ErrSilent)
	})
}

// Nothing is held, so that nothing can be unknown.
func TestCloseOfAnIdleClientIsShort(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		if err := mustLock(t, c, "n").Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.setHook(deaf)
		time.Sleep(5 * time.Minute / 3) // a heartbeat is what it reads last
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) > 200*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// What was not answered in time is not watched, and can be asked for again.
func TestAWatchThatWasGivenUpLeavesNothing(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		var s silence
		f.setHook(s.hook)
		_, err := c.Watch(t.Context(), "n")
		wantError(t, err, client.ErrUnavailable)
		s.end()
		synctest.Wait()
		if name := f.watching(); name != "" {
			t.Errorf("the server still watches %q", name)
		}
		if _, err := c.Watch(t.Context(), "n"); err != nil || f.watching() != "n" {
			t.Errorf("%v, the server watches %q", err, f.watching())
		}
	})
}

// A server that is stopped in the middle, and goes on: nothing is late meanwhile, and nothing is left behind.
func TestRealStoppedServer(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	s := harness.StartLockdWith(t)
	c := dial(t, s.Addr, client.WithSessionTTL(time.Minute), client.WithAnswerTimeout(timeout))
	l := mustLock(t, c, "held")
	s.Signal(syscall.SIGSTOP)
	within := func(what string, bound time.Duration, call func() error) {
		t.Helper()
		begun := time.Now()
		if err := call(); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s of a stopped server: %v", what, err)
		}
		if d := time.Since(begun); d > bound+time.Second {
			t.Errorf("%s returned after %v, want %v", what, d, bound)
		}
	}
	within("TryLock", timeout, func() error { _, err := c.TryLock(t.Context(), "tried"); return err })
	within("Wait", 1100*time.Millisecond, func() error {
		_, err := c.Lock(t.Context(), "waited", client.Wait(100*time.Millisecond))
		return err
	})
	within("Unlock", timeout, func() error { return l.Unlock(t.Context()) })
	s.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Unlock(ctx); err != nil {
		t.Errorf("Unlock after the server went on: %v", err)
	}
	other := dial(t, s.Addr)
	for _, name := range []string{"held", "tried", "waited"} {
		if _, err := other.Lock(ctx, name, client.Wait(5*time.Second)); err != nil {
			t.Errorf("%s after the server went on: %v", name, err)
		}
	}
}

// Close gives up in time when the server is stopped.
func TestRealCloseOfAStoppedServer(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	c := dial(t, s.Addr, client.WithSessionTTL(time.Minute))
	mustLock(t, c, "held")
	s.Signal(syscall.SIGSTOP)
	begun := time.Now()
	err := c.Close()
	if d := time.Since(begun); d > 2500*time.Millisecond || !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("%v after %v, want an unknown outcome within 2 s", err, d)
	}
}
