package redisstore

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/redistest"
)

// What never heals by itself is an error in the log that says which key to look at, and so does Probe.
func TestAWrongConfigurationIsAnErrorWithARemedy(t *testing.T) {
	t.Parallel()
	open := redistest.Start(t)
	locked := redistest.Start(t)
	must(t, locked.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	web := httptest.NewUnstartedServer(nil) // which speaks TLS, with a certificate of its own
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	secure := web.Listener.Addr().String()
	sentinel := redistest.StartSentinel(t, open.Addr)
	guarded := redistest.StartSentinel(t, open.Addr, "requirepass secret")
	asking := func(addr, master, password string) Config {
		return Config{Sentinel: &Sentinel{Master: master, Addrs: []string{addr}, PasswordNow: always(password)}}
	}
	for name, c := range map[string]struct {
		cfg    Config
		remedy string
	}{
		"wrong password":    {Config{Addr: locked.Addr, PasswordNow: always("wrong")}, "redis.password_file"},
		"no password":       {Config{Addr: locked.Addr}, "set redis.password_file"},
		"wrong user":        {Config{Addr: open.Addr, Username: "nobody", PasswordNow: always("x")}, "redis.username"},
		"no such database":  {Config{Addr: open.Addr, DB: 99}, "redis.db"},
		"plain text to TLS": {Config{Addr: secure}, "redis.tls.enabled to true"},
		//nolint:gosec // a test
		"TLS to plain text": {
			Config{Addr: open.Addr, TLS: &tls.Config{InsecureSkipVerify: true}}, "redis.tls.enabled to false",
		},
		"unknown master":   {asking(sentinel.Addr, "nobody", ""), "redis.sentinel.master"},
		"no sentinel":      {asking(open.Addr, redistest.MasterName, ""), "redis.sentinel.addrs"},
		"sentinel refuses": {asking(guarded.Addr, redistest.MasterName, "wrong"), "redis.sentinel.password_file"},
		"sentinel asks":    {asking(guarded.Addr, redistest.MasterName, ""), "redis.sentinel.password_file"},
		//nolint:gosec // a test
		"unknown authority": {Config{Addr: secure, TLS: &tls.Config{ServerName: "example.com"}}, "redis.tls.ca_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.OpTimeout, c.cfg.ConnectTimeout = 5*time.Second, 3*time.Second // on a busy machine an answer takes a while
			core, logs := observer.New(zapcore.ErrorLevel)
			s, err := Open(t.Context(), c.cfg, zap.New(core), nil)
			must(t, err)
			defer s.Close()
			until(t, "an error in the log", func() error {
				if logs.Len() == 0 {
					_, err := s.Probe(context.Background())
					return err
				}
				return nil
			})
			remedy, _ := logs.All()[0].ContextMap()["remedy"].(string)
			if !strings.Contains(remedy, c.remedy) {
				t.Errorf("got the remedy %q, want one with %q", remedy, c.remedy)
			}
			_, err = s.Probe(t.Context())
			wantErr(t, err, lock.ErrUnavailable)
			if err == nil || !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("the probe says %v, want %q in it", err, c.remedy)
			}
			if logs.Len() != 1 {
				t.Errorf("told %d times within a minute, want once", logs.Len())
			}
		})
	}
}

// Without WAIT no grant can be told when replicas must have it. That is said at the start.
func TestAServerWithoutWaitIsToldOf(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	must(t, srv.Client().Do(t.Context(), "acl", "setuser", "default", "-wait").Err())
	core, logs := observer.New(zapcore.ErrorLevel)
	cfg := quick(srv)
	cfg.Replicas = 1
	s, err := Open(t.Context(), cfg, zap.New(core), nil)
	must(t, err)
	defer s.Close()
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, "WAIT") {
		t.Errorf("got %v, want a word about WAIT", logs.All())
	}
	wantErr(t, attempt(t, s, claim("n", "o")), lock.ErrNotReplicated)
}

// A command is not sent on a connection that the server has closed: its outcome would be unknown. It is sent on the
// next connection. Renewals have a connection of their own.
func TestNothingIsSentToAServerThatHungUp(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, srv.Addr)
	behind := quick(srv)
	behind.Addr, behind.Sentinel = "", &Sentinel{Master: redistest.MasterName, Addrs: []string{sentinel.Addr}}
	for name, cfg := range map[string]Config{"standalone": quick(srv), "behind a sentinel": behind} {
		t.Run(name, func(t *testing.T) {
			s := open(t, cfg)
			for range 6 {
				until(t, "connections", s.connected)
				must(t, srv.Client().Do(t.Context(), "client", "kill", "type", "normal").Err())
				g := acquire(t, s, claim("n", "o"))
				must(t, renewOne(t, s, "n", "o", g.Fence))
				release(t, s, releaseOf("n", "o", g.Fence))
			}
		})
	}
}
