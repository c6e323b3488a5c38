package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"

	"github.com/redis/go-redis/v9"
)

// always is a password that does not change; nil for none.
func always(password string) func() string {
	if password == "" {
		return nil
	}
	return func() string { return password }
}

// documentedUser is the user of docs/redis-keys.md, and its password.
func documentedUser(t *testing.T, c *redis.Client) (name string, password func() string) {
	name, text := redistest.DocumentedUser(t, c)
	return name, always(text)
}

// The user has the keys of its prefix, and no others; and it lacks nothing.
func TestTheDocumentedUserIsAsNarrowAsItsPrefix(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := srv.Client()
	cfg := quick(srv)
	cfg.Prefix = "app:"
	cfg.Username, cfg.PasswordNow = documentedUser(t, c)
	s := open(t, cfg)
	_, declared := s.Declare(t.Context(), "one way", time.Minute)
	_, overlaps := s.Overlaps(t.Context(), time.Minute)
	if err := errors.Join(declared, overlaps); err != nil {
		t.Error(err)
	}
	user := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: cfg.Username, Password: cfg.PasswordNow()})
	defer user.Close()
	for _, key := range []string{"credits", layout.Token("n"), "{n}:timeout", "lockd:config:", layout.Session("", "n")} {
		if err := user.Get(t.Context(), key).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: got %v, want it refused", key, err)
		}
	}
	for _, channel := range []string{layout.Channel("n"), layout.NewsChannel("n"), layout.Topic(0, "b:", "moved")} {
		if err := user.Publish(t.Context(), channel, "0").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: got %v, want it refused", channel, err)
		}
	}
	must(t, c.Do(t.Context(), "ACL", "LOG", "RESET").Err()) // these were meant
}
