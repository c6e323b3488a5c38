package redisstore

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/redistest"
)

func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	srv := redistest.Start(t)
	c := srv.Client()
	if err := c.Do(t.Context(), "ACL", "SETUSER", "small", "on", ">pw", "~*", "&*", "+@all", "-info",
		"-config").Err(); err != nil {
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
