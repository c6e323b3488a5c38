package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redistest"
)

// trouble is a state in which Redis is there and refuses.
type trouble struct {
	answer string   // how its refusals begin
	slow   bool     // it takes too long to answer for more than one question
	args   []string // of the server
	begin  func(t *testing.T, srv *redistest.Server, c *redis.Client)
	end    func(t *testing.T, srv *redistest.Server, c *redis.Client)
}

var troubles = []trouble{
	{
		answer: "MISCONF", args: []string{"--save", "3600", "1000000"},
		begin: func(t *testing.T, _ *redistest.Server, c *redis.Client) {
			if err := os.Mkdir(dump(t, c), 0o700); err != nil { // nothing can be saved there
				t.Fatal(err)
			}
			save(t, c, "err")
		},
		end: func(t *testing.T, _ *redistest.Server, c *redis.Client) {
			must(t, os.Remove(dump(t, c)))
			save(t, c, "ok")
		},
	},
	{
		answer: "BUSY", args: []string{"--lua-time-limit", "20"},
		begin: func(t *testing.T, srv *redistest.Server, c *redis.Client) {
			other := srv.Client()
			go other.Eval(context.WithoutCancel(t.Context()), "while true do end", nil)
			until(t, "busy", func() error {
				if err := c.Ping(t.Context()).Err(); !redis.HasErrorPrefix(err, "BUSY") {
					return fmt.Errorf("got %w", errors.Join(err, errors.New("not busy")))
				}
				return nil
			})
		},
		end: func(t *testing.T, _ *redistest.Server, c *redis.Client) { do(t, c, "script", "kill") },
	},
	{
		answer: "LOADING", slow: true, args: []string{"--key-load-delay", "200000"},
		begin: func(t *testing.T, srv *redistest.Server, c *redis.Client) {
			for i := range 60 { // 12 s; while it loads, it answers after each 2 MiB
				text := make([]byte, 1<<20)
				_, _ = rand.Read(text) // never fails
				do(t, c, "set", fmt.Sprint("ballast", i), text)
			}
			do(t, c, "save")
			loaded := make(chan struct{})
			go func() { srv.Restart(); close(loaded) }()
			t.Cleanup(func() { <-loaded })
		},
		end: func(t *testing.T, _ *redistest.Server, c *redis.Client) {
			until(t, "it loads on quickly", func() error { return c.ConfigSet(t.Context(), "key-load-delay", "0").Err() })
		},
	},
	{
		answer: "MASTERDOWN", args: []string{"--replica-serve-stale-data", "no"},
		begin: func(t *testing.T, _ *redistest.Server, c *redis.Client) { do(t, c, "replicaof", "127.0.0.1", "1") },
		end:   func(t *testing.T, _ *redistest.Server, c *redis.Client) { do(t, c, "replicaof", "no", "one") },
	},
	{
		answer: "NOREPLICAS",
		begin: func(t *testing.T, _ *redistest.Server, c *redis.Client) {
			do(t, c, "config", "set", "min-replicas-to-write", "1")
		},
		end: func(t *testing.T, _ *redistest.Server, c *redis.Client) {
			do(t, c, "config", "set", "min-replicas-to-write", "0")
		},
	},
}

func do(t *testing.T, c *redis.Client, args ...any) {
	t.Helper()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%.60v: %v", args, err)
	}
}

// dump is where the server saves.
func dump(t *testing.T, c *redis.Client) string {
	t.Helper()
	dir, err := c.ConfigGet(t.Context(), "dir").Result()
	must(t, err)
	return filepath.Join(dir["dir"], "dump.rdb")
}

// save has the server save in the background, and waits until it says how that went.
func save(t *testing.T, c *redis.Client, want string) {
	t.Helper()
	do(t, c, "bgsave")
	until(t, "saved", func() error {
		info, err := c.Info(t.Context(), "persistence").Result()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:"+want) {
			err = errors.New("it does not say " + want)
		}
		return err
	})
}

// A Redis that is there and refuses is unavailable: nothing was done, and nobody waits for longer than an operation may
// take. When it refuses no more, it has all that it had.
func TestARedisThatRefusesIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, tr := range troubles {
		t.Run(tr.answer, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, tr.args...)
			s := open(t, quick(srv))
			c := srv.Client()
			begun := time.Now()
			held := acquire(t, s, claim("held", "o")).Fence

			tr.begin(t, srv, c)
			refused := func(what string, do func() error) {
				t.Helper()
				var asked time.Time
				var err error
				until(t, what, func() error { // a connection may have been cut
					asked = time.Now()
					if err = do(); err == nil || !strings.Contains(err.Error(), tr.answer+" ") {
						return fmt.Errorf("got %v, want %s", err, tr.answer) //nolint:errorlint // its text counts
					}
					return nil
				})
				wantErr(t, err, lock.ErrUnavailable)
				if errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Errorf("%s: %v is unknown, want that nothing was done", what, err)
				}
				if took := time.Since(asked); took > 2*s.OpTimeout {
					t.Errorf("%s: it took %v", what, took)
				}
			}
			refused("acquire", func() error { return attempt(t, s, claim("n", "o")) })
			if !tr.slow {
				refuseRest(t, s, held, begun, refused)
			}

			tr.end(t, srv, c)
			until(t, "renewed", func() error { return seenOne(t, s, "held", "o", held, begun) })
			wantHeld(t, s, "n", false)
			acquire(t, s, claim("n", "p"))
		})
	}
}

// refuseRest asks for what else there is.
func refuseRest(t *testing.T, s *Store, held lock.Fence, begun time.Time, refused func(what string, do func() error)) {
	t.Helper()
	refused("acquire all", func() error {
		_, err := s.AcquireAll(t.Context(), []lock.Claim{claim("n", "o"), claim("m", "o")})
		return err
	})
	refused("release", func() error {
		_, err := lock.Await(t.Context(), s.StartRelease, releaseOf("held", "o", held))
		return err
	})
	refused("renew", func() error { return seenOne(t, s, "held", "o", held, begun) })
}

// A script that was killed, which an operator may do before its first write, is an unknown outcome. The connection goes
// on.
func TestAKilledScriptIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--lua-time-limit", "20")
	s := open(t, quick(srv))
	acquire(t, s, claim("warm", "o"))
	told := make(chan error, 1)
	go func() {
		told <- s.Shared.Do(t.Context(), pipe.Job{Cmd: redis.NewCmd(t.Context(), "eval", "while true do end", 0)})
	}()
	c := srv.Client()
	until(t, "killed", func() error { return c.ScriptKill(t.Context()).Err() })
	if err := <-told; !errors.Is(script.Meaning(err), lock.ErrOutcomeUnknown) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	acquire(t, s, claim("n", "o"))
}

// Redis comes back with what it had a while ago. What was taken since is lost with the data, what was released since
// is held until its lease ends, and fences grow on.
func TestARedisThatComesBackWithOldDataForgetsWhatCameSince(t *testing.T) {
	srv, s, c := begin(t)
	begun := time.Now()
	kept := acquire(t, s, claim("kept", "o")).Fence
	old := acquire(t, s, claim("passed on", "o")).Fence
	do(t, c, "save")
	release(t, s, releaseOf("passed on", "o", old))
	f := acquire(t, s, claim("passed on", "p")).Fence
	lost := acquire(t, s, claim("lost", "o")).Fence

	srv.Restart()
	until(t, "renew what was saved", func() error { return seenOne(t, s, "kept", "o", kept, begun) })
	wantLost(t, seenOne(t, s, "lost", "o", lost, begun), lock.LostData)
	wantLost(t, seenOne(t, s, "passed on", "p", f, begun), lock.LostData)
	wantErr(t, attempt(t, s, claim("passed on", "q")), lock.ErrHeld)   // the old hold is there again
	_, err := s.ForceRelease(t.Context(), "passed on", lock.Exclusive) // or its lease ends
	must(t, err)
	if g := acquire(t, s, claim("passed on", "q")); g.Fence <= f {
		t.Errorf("got fence %d, want more than %d, of which Redis has not heard", g.Fence, f)
	}
	if g := acquire(t, s, claim("lost", "q")); g.Fence <= lost {
		t.Errorf("got fence %d, want more than %d, of which Redis has not heard", g.Fence, lost)
	}
}
