package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/redistest"
)

func TestMeaningOfErrors(t *testing.T) {
	const sha = " script: 0d8e4c3ecda825a4b587f068f712d361050b4655, on @user_script:37."
	const old = "ERR Error running script (call to f_0d8e4c3ecda825a4b587f068f712d361050b4655): @user_script:37: @user_script: 37: "
	replies := map[string]error{
		"OOM command not allowed when used memory > 'maxmemory'." + sha: lock.ErrStoreFull,
		old + "-OOM command not allowed when used memory > 'maxmemory'": lock.ErrStoreFull,
		"@user_script: 37: -OOM command not allowed when used memory":   lock.ErrStoreFull,      // caught
		"@user_script:37: @user_script: 37: -READONLY You can't write":  lock.ErrUnavailable,    // likewise
		"@user_script: 37: -WRONGTYPE Operation against a key":          lock.ErrOutcomeUnknown, // likewise
		"a text with @user_script: 37: -OOM in it":                      lock.ErrOutcomeUnknown,
		"WRONGTYPE Operation against a key holding the wrong kind":      lock.ErrOutcomeUnknown, // half-way, perhaps
		old + "WRONGTYPE Operation against a key":                       lock.ErrOutcomeUnknown,
		"LOCKDKIND the fence key holds no fence":                        lock.ErrKindMismatch,
		"READONLY You can't write against a read only replica." + sha:   lock.ErrUnavailable,
		old + "-READONLY You can't write against a read only replica":   lock.ErrUnavailable,
		"LOADING Redis is loading the dataset in memory":                lock.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down":                           lock.ErrUnavailable,
		"CLUSTERDOWN The cluster is down":                               lock.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots":             lock.ErrUnavailable,
		"BUSY Redis is busy running a script":                           lock.ErrUnavailable,
		"NOAUTH Authentication required.":                               lock.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write.":                 lock.ErrUnavailable,
		"ERR max number of clients reached":                             lock.ErrUnavailable,
		"ERR user_script:1: attempt to index a nil value" + sha:         lock.ErrOutcomeUnknown,
		"NOPERM this user has no permissions" + sha:                     lock.ErrOutcomeUnknown,
		"SOMETHING new": lock.ErrOutcomeUnknown,
	}
	for text, want := range replies {
		if got := replyMeaning(text); !errors.Is(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct{ err, want error }{
		{dial, lock.ErrUnavailable},
		{fmt.Errorf("wrapped: %w", dial), lock.ErrUnavailable},
		{redis.ErrPoolTimeout, lock.ErrUnavailable},
		{redis.ErrClosed, lock.ErrUnavailable},
		{errQueueFull, lock.ErrUnavailable},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, lock.ErrOutcomeUnknown},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, lock.ErrOutcomeUnknown},
		{io.EOF, lock.ErrOutcomeUnknown},
		{net.ErrClosed, lock.ErrOutcomeUnknown},
		{context.DeadlineExceeded, lock.ErrOutcomeUnknown},
		{context.Canceled, lock.ErrOutcomeUnknown},
		{errors.New("new"), lock.ErrOutcomeUnknown},
	} {
		if got := meaning(c.err); !errors.Is(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for info, want := range map[string]bool{
		"redis_version:7.0.15\r\nrole:master\r\n": true,
		"redis_version:6.2.0\r\nrole:master\r\n":  true,
		"redis_version:10.0.0\r\n":                true,
		"redis_version:255.255.255\r\n":           true,
		"redis_version:unstable\r\n":              true,
		"redis_version:6.0.16\r\nrole:master\r\n": false,
		"redis_version:5.0\r\n":                   false,
		"redis_version:7.0.15\r\nrole:slave\r\n":  false,
	} {
		if err := fit(info); (err == nil) != want {
			t.Errorf("%q: got %v, want it fit: %v", info, err, want)
		}
	}
}

func TestEvictionIsWarnedOf(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	core, logs := observer.New(zapcore.WarnLevel)
	s, err := Open(t.Context(), quick(srv), zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := logs.FilterMessageSnippet("maxmemory-policy").Len(); got != 1 {
		t.Errorf("got %d warnings, want one for each server", got)
	}
}

func TestProbeWithoutPermissionForInfoStillProbes(t *testing.T) {
	srv := redistest.Start(t)
	c := srv.Client()
	if err := c.Do(t.Context(), "ACL", "SETUSER", "small", "on", ">pw", "~*", "&*", "+@all", "-info", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := quick(srv)
	cfg.Username, cfg.Password = "small", "pw"
	s := open(t, cfg)
	if id, err := s.Probe(t.Context()); err != nil || id == "" {
		t.Errorf("got %q, %v, want some identity", id, err)
	}
	cycle(t, s, "n")
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Microsecond: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2,
	} {
		if got := millis(d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}

func FuzzTokenKeysAreTurnedBack(f *testing.F) {
	for _, n := range []string{"a", "{a}", "{a}b", "b{a}", "{{a}}", "{a", "a}", "{}", "}{", "redisson_lock_token:{a}", "a:b"} {
		f.Add(n, n)
	}
	f.Fuzz(func(t *testing.T, n, m string) {
		key := tokenKey(n)
		back, ok := lockOfToken(key)
		// The broker takes no names with a brace that does not belong to a pair.
		if strings.Contains(n, "{") || !strings.Contains(n, "}") {
			if n != "" && n != "{}" && (!ok || back != n) {
				t.Errorf("%q has token key %q, which gives back %q, %v", n, key, back, ok)
			}
			if wellFormed(n) && wellFormed(m) && n != m && tokenKey(m) == key {
				t.Errorf("%q and %q share token key %q", n, m, key)
			}
		}
		if lock, ok := lockOfToken(m); ok && tokenKey(lock) != m {
			t.Errorf("%q is said to be the token key of %q, which has %q", m, lock, tokenKey(lock))
		}
	})
}

// wellFormed says whether the broker takes a name with such braces.
func wellFormed(n string) bool {
	_, after, open := strings.Cut(n, "{")
	if !open {
		return n != "" && !strings.Contains(n, "}")
	}
	tag, _, shut := strings.Cut(after, "}")
	return shut && tag != ""
}
