package pipe

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/test/harness"
)

// doorkeeper is a server that lets connections in or not, and may fall silent on some.
type doorkeeper struct {
	mu     sync.Mutex // guards the fields below
	in     []net.Conn // that were greeted
	silent []net.Conn
	used   net.Conn // that answered a push last
	closed bool     // it lets nobody in
	lonely bool     // it answers no PING
	hasty  bool     // it hangs up on whom it has let in
}

func (s *doorkeeper) answer(c net.Conn, words []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.silent, c), words[0] == "ping" && s.lonely:
	case words[0] == "ping":
		_, _ = fmt.Fprint(c, "+PONG\r\n")
	case words[0] == "rpush":
		s.used = c
		_, _ = fmt.Fprint(c, ":1\r\n")
	case s.closed && !slices.Contains(s.in, c):
		return false
	default:
		if strings.EqualFold(words[0], "client") {
			s.in = append(s.in, c)
		}
		return greets(c, words) && (!s.hasty || !slices.Contains(s.in, c))
	}
	return true
}

// spared is a pipeline to it, with a spare connection.
func (s *doorkeeper) spared(t testing.TB, timeout time.Duration) *Pipeline {
	addr, _ := fake(t, s.answer)
	o := redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}
	d := NewDialer(o, "test", time.Minute, NewTrouble(zap.NewNop(), false))
	p := New(d, Config{Timeout: timeout, Most: 1, Spares: 1})
	t.Cleanup(p.Close)
	return p
}

// has waits until so many were let in.
func (s *doorkeeper) has(t testing.TB, n int) {
	t.Helper()
	harness.Until(t, fmt.Sprint(n, " connections are there"), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.in) >= n
	})
}

// change changes it.
func (s *doorkeeper) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// loseSpare hangs up on the connections that are not in use, after a change.
func (s *doorkeeper) loseSpare(how func()) {
	s.change(func() {
		how()
		for _, c := range s.in {
			if c != s.used {
				_ = c.Close()
			}
		}
	})
}

// Nobody else is let in while a connection is silent: only one that was made ahead can take over. There is a new one
// after that, though the first attempts to make it fail. While the machine stands still the spare one is lost, too, so
// some tries may show nothing.
func TestASpareConnectionTakesOverFromASilentOne(t *testing.T) {
	t.Parallel()
	var err error
	for range 5 {
		if err = takesOver(t); err == nil {
			return
		}
	}
	t.Error(err)
}

// takesOver fails if a spare connection does not take over, some times in a row.
func takesOver(t *testing.T) error {
	const timeout = 500 * time.Millisecond
	var s doorkeeper
	p := s.spared(t, timeout)
	defer p.Close()
	for n := 2; n < 5; n++ {
		s.has(t, n)
		carriedOut(t, p, "1")
		s.change(func() { s.silent, s.closed = append(s.silent, s.used), true })
		if err := do(t, p, push("2")); !errors.Is(err, ErrOpTimeout) && !errors.Is(err, ErrWaited) {
			return fmt.Errorf("on a silent connection: got %v", err) //nolint:errorlint // it may be nil
		}
		err := errors.New("not yet")
		for end := time.Now().Add(20 * timeout); err != nil; err = do(t, p, push("3")) {
			if time.Now().After(end) {
				return fmt.Errorf("nobody takes over: %w", err)
			}
		}
		time.Sleep(3 * firstRedial)
		s.change(func() { s.closed = false })
	}
	return nil
}

// What silenced a connection may have silenced the spare one: a new one does not wait for that. One that falls silent
// before it is spare is a new one, so some tries may show nothing.
func TestASilentSpareConnectionIsInNobodysWay(t *testing.T) {
	t.Parallel()
	for range 5 {
		var s doorkeeper
		p := s.spared(t, 2*time.Second)
		s.has(t, 2)
		carriedOut(t, p, "1")
		s.change(func() {
			s.lonely = true
			s.silent = append(s.silent, s.in...)
			_ = s.used.Close()
		})
		err := errors.New("not yet")
		for err != nil && !errors.Is(err, ErrOpTimeout) && !errors.Is(err, ErrWaited) {
			err = do(t, p, push("2"))
		}
		if err == nil {
			return
		}
	}
	t.Error("what was asked waited for the silent one")
}

// Close leaves no connection, whatever they do.
func TestCloseEndsTheSpareConnection(t *testing.T) {
	t.Parallel()
	var s doorkeeper
	p := s.spared(t, time.Minute)
	s.has(t, 2)
	carriedOut(t, p, "1")
	s.change(func() { s.silent = append(s.silent, s.in...) })
	p.Close()
	for _, c := range s.in {
		harness.Until(t, "the server closes what the client has closed", func() bool {
			return c.SetDeadline(time.Time{}) != nil
		})
	}
}

func TestASpareConnectionThatWasRefusedIsDialedAgain(t *testing.T) {
	t.Parallel()
	var s doorkeeper
	p := s.spared(t, time.Minute)
	s.has(t, 2)
	carriedOut(t, p, "1")
	s.loseSpare(func() { s.closed = true })
	time.Sleep(3 * firstRedial)
	s.change(func() { s.closed = false })
	s.has(t, 3)
}

// A server that hangs up on each spare connection is not dialed without a pause, though the other one works.
func TestAServerThatHangsUpOnSpareConnectionsIsNotDialedWithoutPause(t *testing.T) {
	t.Parallel()
	var s doorkeeper
	p := s.spared(t, time.Minute)
	s.has(t, 2)
	carriedOut(t, p, "1")
	begun := time.Now()
	s.loseSpare(func() { s.hasty = true })
	s.has(t, 4)
	time.Sleep(500 * time.Millisecond)
	s.change(func() {
		if n := len(s.in); n > 4+int(time.Since(begun)/firstRedial) {
			t.Errorf("%d connections in %v, want at most one in %v", n, time.Since(begun), firstRedial)
		}
	})
}
