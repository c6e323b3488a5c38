package redisstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// passwords are how the password of lockd's user changes.
var passwords = []struct {
	what   string
	user   string
	set    func(password string) []any
	cutOff []any // what ends connections that were made with the old one
}{
	{
		"requirepass", "", func(p string) []any { return []any{"config", "set", "requirepass", p} },
		[]any{"client", "kill", "type", "normal", "skipme", "yes"},
	},
	{
		"acl", "locks", func(p string) []any {
			return []any{"acl", "setuser", "locks", "on", "resetpass", ">" + p, "~*", "&*", "+@all"}
		},
		[]any{"client", "kill", "user", "locks"},
	},
}

// Connections that there are go on when the password changes. New ones are made with the new password, without a
// restart.
func TestAPasswordChangesWhileLockdRuns(t *testing.T) {
	t.Parallel()
	for _, p := range passwords {
		t.Run(p.what, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			c := srv.Client()
			var password atomic.Pointer[string]
			change := func(to string) { password.Store(&to) }
			admin := c.Conn() // which stays
			defer admin.Close()
			run := func(args ...any) {
				t.Helper()
				must(t, admin.Do(t.Context(), args...).Err())
			}
			run("ping")
			run(p.set("first")...)
			change("first")
			cfg := quick(srv)
			cfg.Username, cfg.PasswordNow = p.user, func() string { return *password.Load() }
			s := open(t, cfg)
			heard := make(chan lock.What, 1000)
			defer s.Listen("n", lock.Exclusive, func(n lock.Notice) { heard <- n.What })()
			f := acquire(t, s, claim("n", "o")).Fence
			until(t, "connections", s.connected)

			run(p.set("second")...)
			for range 20 {
				wantErr(t, renewOne(t, s, "n", "o", f), nil)
				acquire(t, s, claim("m", "o"))
			}
			run(p.cutOff...)
			until(t, "the old password is refused", func() error {
				_, err := lock.Await(t.Context(), s.StartAcquire, claim("m", "o"))
				if !errors.Is(err, lock.ErrUnavailable) || !redis.HasErrorPrefix(err, "WRONGPASS") {
					return fmt.Errorf("got %v", err) //nolint:errorlint // its text counts
				}
				return nil
			})
			change("second")
			until(t, "renewed", func() error { return renewOne(t, s, "n", "o", f) })
			until(t, "connections", s.connected)
			if _, _, err := s.List(t.Context(), "", "", 10); err != nil {
				t.Error(err)
			}
			if _, err := s.See(t.Context(), "n"); err != nil {
				t.Error(err)
			}
			for len(heard) > 0 {
				<-heard
			}
			release(t, s, releaseOf("n", "o", f))
			until(t, "it listens with the new password", func() error {
				select {
				case what := <-heard:
					if what == lock.NoticeReleased || what == lock.NoticeListening {
						return nil
					}
				default:
				}
				return errors.New("nothing was heard")
			})
		})
	}
}

// The sentinels' password changes, too.
func TestThePasswordOfTheSentinelsChangesWhileLockdRuns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	w := redistest.StartSentinel(t, srv.Addr, "requirepass first")
	var password atomic.Pointer[string]
	change := func(to string) { password.Store(&to) }
	change("first")
	s := alone(t, w.Addr, Config{Sentinel: &Sentinel{PasswordNow: func() string { return *password.Load() }}})
	acquire(t, s, claim("n", "o"))
	c := redis.NewClient(&redis.Options{Addr: w.Addr, Password: "first", Protocol: 2, DisableIdentity: true})
	defer c.Close()
	// The first command counts on the connection with the old password.
	must(t, c.Do(t.Context(), "acl", "setuser", "default", "resetpass", ">second").Err())
	must(t, c.Do(t.Context(), "client", "kill", "type", "normal").Err())
	change("second")
	must(t, srv.Client().Do(t.Context(), "client", "kill", "type", "normal").Err())
	until(t, "acquire", func() error { return attempt(t, s, claim("m", "o")) })
	until(t, "connections", s.connected)
}
